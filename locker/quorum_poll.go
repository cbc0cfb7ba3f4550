package locker

import (
	"context"
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A nodeSet is some of the nodes of a quorum, by place.
type nodeSet uint16

func (s nodeSet) has(place int) bool { return s>>place&1 == 1 }
func (s *nodeSet) add(place int)     { *s |= 1 << place }
func (s nodeSet) len() int           { return bits.OnesCount16(uint16(s)) }
func only(place int) nodeSet         { return 1 << place }

// all are the quorum's nodes.
func (q *quorum) all() nodeSet { return 1<<len(q.nodes) - 1 }

var errUnasked = errors.New("locker: it was decided before the node was asked")

// runBatch asks all nodes that the calls concern and returns as soon as all outcomes
// are certain, or ctx ends.
func (q *quorum) runBatch(ctx context.Context, calls []call) []driver.Result {
	ballots := make([]ballot, len(calls))
	all := make(ballot, len(calls)*len(q.nodes))
	for i := range ballots {
		ballots[i], all = all[:len(q.nodes)], all[len(q.nodes):]
	}
	results := make([]driver.Result, len(calls))
	q.poll(ctx, calls, func(node int, answers []driver.Result) (decided bool) {
		decided = true
		for i, c := range calls {
			ballots[i][node] = vote{in: true, clear: c.clear.has(node), Result: answers[i]}
			if q.cfg.Bootstrap {
				ballots[i].believe()
			}
			v, err, ok := c.script.verdict(ballots[i])
			results[i] = driver.Result{Value: v, Err: err}
			decided = decided && ok
		}
		return decided
	})
	for i, r := range results {
		if r.Value != nil || r.Err != nil {
			if r.Err == nil { // else it is repeated
				q.missed(calls[i], ballots[i])
			}
			continue
		}
		// ctx has ended. What the others have said may suffice.
		heard := ballots[i].asFarAsHeard()
		v, err, _ := calls[i].script.verdict(heard)
		if err != nil {
			err = ballots[i].failure()
		} else {
			q.missed(calls[i], heard)
		}
		results[i] = driver.Result{Value: v, Err: err}
	}
	return results
}

// poll puts the calls to all nodes that they concern at once and shows the answers as
// they come, until decided or ctx has ended. The nodes that have not answered by then
// have until the node timeout to do so, so that what is on its way arrives.
func (q *quorum) poll(ctx context.Context, calls []call, show func(node int, answers []driver.Result) (decided bool)) {
	q.canvass(ctx, question{calls: calls}, show)
}

// A question is what a canvass puts to the nodes.
type question struct {
	calls []call
	// lead is put to a majority first, unless it is nil: the calls are put to the others
	// once it turns out that those do not decide, or take long.
	lead    []call
	bid     *bid         // that lead makes; may be nil
	moot    *atomic.Bool // what has not gone out by the time that it is set never does; may be nil
	earnest bool         // is put to suspect nodes, too, and they are waited for
	hasty   bool         // nodes that hang are not waited for where others have the lock at another one

	doubtful nodeSet // may still be doing what they were asked before, under the same id
}

// canvass is poll with a question that may not go to all nodes. It returns those that were
// not asked, and the round that hears those which have not answered yet.
func (q *quorum) canvass(ctx context.Context, ask question, show func(node int, answers []driver.Result) (decided bool)) (*round, nodeSet) {
	err := ctx.Err()
	if err == nil && !q.enter() {
		err = ErrClosed
	}
	if err != nil {
		for i := range q.nodes {
			show(i, allFailed(ask.calls, driver.NotSent(err)))
		}
		return nil, 0
	}
	defer q.wg.Done()
	q.polls.Add(1)
	defer q.polls.Add(-1)
	r := newRound(q, ask, show)
	var slow <-chan time.Time // fires when those asked first take long
	if ask.lead != nil {
		timer := q.timer(q.slowness(r.order))
		defer q.timers.Put(timer)
		defer timer.Stop()
		slow = timer.C
	}
	r.begin(ask.lead)
	own, callers := ends(ctx)
	for {
		select {
		case <-r.done:
		case <-slow:
			r.askRest()
			continue
		case <-own:
			r.end(nil)
		case <-callers:
			r.end(nil)
		case <-r.in.ctx.Done():
			err := late(r.in.ctx.Err())
			if q.ctx.Err() != nil {
				err = ErrClosed
			}
			r.end(err)
		}
		return r, r.leaveBehind()
	}
}

// oneUnasked is shared, since most questions are a single call.
var oneUnasked = []driver.Result{{Err: driver.NotSent(errUnasked)}}

func unasked(calls []call) []driver.Result {
	if len(calls) == 1 {
		return oneUnasked
	}
	return allFailed(calls, oneUnasked[0].Err)
}

func allFailed(calls []call, err error) []driver.Result {
	return slices.Repeat([]driver.Result{{Err: err}}, len(calls))
}

// An order is the order in which nodes are asked, by place.
type order [maxNodes]uint8

var inOrder = func() (o order) {
	for i := range o {
		o[i] = uint8(i)
	}
	return o
}()

// order returns the order for a lock. Clients that compete for it ask the same nodes
// first, so that few split the vote; different locks share the load. Nodes that are
// suspect or slow come last.
func (q *quorum) order(key string) (o order) {
	var ranks [maxNodes]int
	first := driver.Slot(key)
	for i := range q.nodes {
		place := (first + i) % len(q.nodes)
		rank, at := q.nodes[place].rank(), i
		for ; at > 0 && ranks[at-1] > rank; at-- {
			ranks[at], o[at] = ranks[at-1], o[at-1]
		}
		ranks[at], o[at] = rank, uint8(place)
	}
	return o
}

// slowness is how long the nodes that are asked first may take before the others are
// asked, too.
func (q *quorum) slowness(o order) time.Duration {
	var longest time.Duration
	for _, place := range o[:majority(len(q.nodes))] {
		longest = max(longest, time.Duration(q.nodes[place].pace.Load()))
	}
	return max(min(4*longest, q.cfg.NodeTimeout/4), min(minSlowness, q.cfg.NodeTimeout))
}

// timer returns one of a few timers that are used again and again.
func (q *quorum) timer(d time.Duration) *time.Timer {
	if t, ok := q.timers.Get().(*time.Timer); ok {
		t.Reset(d)
		return t
	}
	return time.NewTimer(d)
}

// minSlowness is more than a node in the same network takes.
const minSlowness = 2 * time.Millisecond

// spared tells which nodes a decision can do without: those that are suspect, as long
// as a majority is left, the worst first.
func (q *quorum) spared() (spared nodeSet) {
	for range len(q.nodes) - majority(len(q.nodes)) {
		worst := -1
		for i, n := range q.nodes {
			if !spared.has(i) && n.suspect() && (worst < 0 || n.behind.Load() > q.nodes[worst].behind.Load()) {
				worst = i
			}
		}
		if worst >= 0 {
			spared.add(worst)
		}
	}
	return spared
}
