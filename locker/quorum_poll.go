package locker

import (
	"context"
	"errors"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A nodeSet is some of the nodes of a quorum, by place.
type nodeSet uint16

func (s nodeSet) has(place int) bool { return s>>place&1 == 1 }
func (s *nodeSet) add(place int)     { *s |= 1 << place }
func (s nodeSet) len() int           { return bits.OnesCount16(uint16(s)) }

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
			v, err, ok := c.script.verdict(ballots[i])
			results[i] = driver.Result{Value: v, Err: err}
			decided = decided && ok
		}
		return decided
	})
	for i, r := range results {
		if r.Value == nil && r.Err == nil {
			results[i].Err = ballots[i].failure() // ctx has ended
		}
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
	// Put to a majority first, unless it is nil: the calls are put to the others once it
	// shows that those do not decide, or take long.
	lead    []call
	moot    *atomic.Bool // what has not gone out by the time that it is set never does; may be nil
	earnest bool         // is put to suspect nodes, too, and they are waited for
}

// canvass is poll with a question that may not go to all nodes. It returns those that were
// not asked.
func (q *quorum) canvass(ctx context.Context, ask question, show func(node int, answers []driver.Result) (decided bool)) nodeSet {
	err := ctx.Err()
	if err == nil && !q.enter() {
		err = ErrClosed
	}
	if err != nil {
		for i := range q.nodes {
			show(i, allFailed(ask.calls, driver.NotSent(err)))
		}
		return 0
	}
	defer q.wg.Done()
	q.polls.Add(1)
	defer q.polls.Add(-1)
	r := round{quorum: q, in: inquiry{
		ctx: q.span(), calls: ask.calls, commands: commands(ask.calls), answers: make(chan answer, len(q.nodes)), moot: ask.moot,
	}}
	if !ask.earnest {
		r.spared = q.spared()
	}
	var slow <-chan time.Time // fires when those asked first take long
	if ask.lead != nil {
		r.order = q.order(ask.calls[0].key())
		timer := q.timer(q.slowness(r.order))
		defer q.timers.Put(timer)
		defer timer.Stop()
		slow = timer.C
		first := r.in
		first.calls, first.commands = ask.lead, commands(ask.lead)
		r.ask(majority(len(q.nodes)), first)
	} else {
		r.order = inOrder
		r.ask(len(q.nodes), r.in)
	}
	for r.answered.len() < len(q.nodes) {
		select {
		case a := <-r.in.answers:
			r.answered.add(a.node)
			if show(a.node, a.results) {
				break
			}
			if a.results[0].Err != nil || r.answered == r.asked {
				r.ask(len(q.nodes), r.in)
			}
			continue
		case <-slow:
			r.ask(len(q.nodes), r.in)
			continue
		case <-ctx.Done():
		case <-r.in.ctx.Done():
			r.timeUp(show)
		}
		break
	}
	for i, node := range q.nodes {
		if r.asked.has(i) && !r.answered.has(i) {
			node.behind.Add(1)
		}
	}
	return r.unasked()
}

// A round is one canvass of the nodes.
type round struct {
	quorum *quorum
	in     inquiry
	order  order
	spared [maxNodes]bool

	begun    int // so many of order were asked, or passed over
	asked    nodeSet
	answered nodeSet
}

// ask puts in to the first n nodes in order that were not asked yet.
func (r *round) ask(n int, in inquiry) {
	for ; r.begun < n; r.begun++ {
		node := r.quorum.nodes[r.order[r.begun]]
		r.asked.add(node.place)
		switch {
		case in.needless(node.place):
			in.answers <- answer{node.place, unasked(in.calls)}
		case node.asked.Add(1) > maxProbes && r.spared[node.place]:
			node.asked.Add(-1)
			in.answers <- answer{node.place, allFailed(in.calls, driver.NotSent(errSuspect))}
		default:
			node.ask(in)
		}
	}
}

func (r *round) unasked() (left nodeSet) {
	for i := range r.quorum.nodes {
		if !r.asked.has(i) {
			left.add(i)
		}
	}
	return left
}

// timeUp shows what nodes answered at the last moment, and that the others did not.
func (r *round) timeUp(show func(int, []driver.Result) bool) {
	for {
		select {
		case a := <-r.in.answers:
			r.answered.add(a.node)
			if show(a.node, a.results) {
				return
			}
			continue
		default:
		}
		break
	}
	err := r.in.ctx.Err()
	if r.quorum.ctx.Err() != nil {
		err = ErrClosed
	}
	for i := range r.quorum.nodes {
		if !r.answered.has(i) && show(i, allFailed(r.in.calls, err)) {
			return
		}
	}
}

// needless tells that none of the calls concerns the node.
func (in inquiry) needless(place int) bool {
	for _, c := range in.calls {
		if !c.clear.has(place) {
			return false
		}
	}
	return true
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
	results := make([]driver.Result, len(calls))
	for i := range results {
		results[i].Err = err
	}
	return results
}

// An order is that in which nodes are asked, by place.
type order [maxNodes]uint8

var inOrder = func() (o order) {
	for i := range o {
		o[i] = uint8(i)
	}
	return o
}()

// order returns that of a lock. Clients that compete for it ask the same nodes first, so
// that few split the vote; different locks share the load. Nodes that are suspect or
// slow come last.
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
func (q *quorum) spared() (spared [maxNodes]bool) {
	for range len(q.nodes) - majority(len(q.nodes)) {
		worst := -1
		for i, n := range q.nodes {
			if !spared[i] && n.suspect() && (worst < 0 || n.behind.Load() > q.nodes[worst].behind.Load()) {
				worst = i
			}
		}
		if worst >= 0 {
			spared[worst] = true
		}
	}
	return spared
}
