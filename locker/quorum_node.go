package locker

import (
	"errors"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A node is one server of a quorum. What is asked of it goes out by a pipeline.
type node struct {
	*link
	quorum *quorum
	place  int                   // in the list of nodes
	heard  atomic.Int64          // when it answered last, in Unix µs
	err    atomic.Pointer[error] // of the last request that had no answer since
	known  atomic.Bool           // its run id has been compared with the others'
	barred atomic.Bool           // it is no server of its own, and asked nothing
	behind atomic.Int32          // decisions made without it since it answered last
	asked  atomic.Int32          // inquiries that it has not answered
	latest atomic.Pointer[span]  // of what it was asked last
	owed   atomic.Pointer[span]  // of the first inquiry since it answered last; nil if there is none
	pace   atomic.Int64          // ns that the last request has taken
	marker atomic.Pointer[marker]

	objection atomic.Pointer[objection]
	marked    atomic.Pointer[time.Time] // when it was last asked for its marker for one of its answers
	tended    atomic.Pointer[time.Time] // when it was last asked for its marker lest that run out
	preparing atomic.Bool               // a connection is being made that no request waits for

	pipeline pipeline[inquiry]
	dues     dues
}

// nodeRequests is how many requests to a node are under way if it does not answer soon.
const nodeRequests = 4

func newNode(q *quorum, place int, c driver.Connector) *node {
	n := &node{link: newLink(c), quorum: q, place: place}
	n.pipeline.request, n.pipeline.crew, n.pipeline.room = n.request, &q.crew, batchSize
	n.pipeline.usual, n.pipeline.most = 1, nodeRequests // in order, while the node answers soon
	return n
}

// An inquiry is what all nodes are asked.
type inquiry struct {
	ctx      *span
	calls    []call
	commands []driver.Command // the same, ready to be sent
	round    *round           // hears the answers
	moot     *atomic.Bool     // need not be sent any more; may be nil
}

// unsettled takes out of the batch what need not be sent any more, or has waited too long.
func (n *node) unsettled(batch []inquiry) []inquiry {
	return slices.DeleteFunc(batch, func(in inquiry) bool {
		err := in.ctx.Err()
		switch {
		case in.moot != nil && in.moot.Load():
			if n.asked.Load() == 1 {
				n.owed.CompareAndSwap(in.ctx, nil)
			}
			n.answer(in, unasked(in.calls))
		case err != nil:
			n.answer(in, allFailed(in.calls, late(driver.NotSent(err))))
		default:
			return false
		}
		return true
	})
}

// request makes one request of several inquiries. It returns false if the node had not
// answered when its time was up: then the inquiries have been told so.
func (n *node) request(batch []inquiry) (answered bool) {
	if batch = n.unsettled(batch); len(batch) == 0 {
		return true
	}
	all := batch[0]
	if len(batch) > 1 {
		all.calls, all.commands = nil, nil
		for _, in := range batch {
			if in.ctx.until.After(all.ctx.until) { // those in the pipeline are in no order
				all.ctx = in.ctx
			}
			all.calls, all.commands = append(all.calls, in.calls...), append(all.commands, in.commands...)
		}
	}
	a := &asking{node: n, ctx: all.ctx, batch: batch, begun: time.Now(), before: n.err.Load()}
	a.watch.f = a.leave
	all.ctx.add(&a.watch)
	results := n.exchange(all)
	a.watch.stop()
	if !a.end() {
		a.explain(results)
		return false
	}
	if end, _ := all.ctx.Deadline(); !time.Now().Before(end) {
		n.prepare() // the driver was told before leave
	}
	n.note(results)
	n.unmask(results)
	n.heed(all.calls, results)
	n.miss(all.calls, results)
	for _, in := range batch {
		n.answer(in, results[:len(in.calls):len(in.calls)])
		results = results[len(in.calls):]
	}
	return true
}

// An asking is a request under way.
type asking struct {
	node   *node
	ctx    *span
	batch  []inquiry
	begun  time.Time
	before *error // the node's
	watch  watch
	over   atomic.Bool
}

// end returns false if it has ended already.
func (a *asking) end() bool {
	if a.over.Swap(true) {
		return false
	}
	a.node.pace.Store(int64(time.Since(a.begun)))
	return true
}

// leave ends it without the driver, which may heed the end of the time or not.
func (a *asking) leave() {
	if !a.end() {
		return
	}
	n := a.node
	err := late(a.ctx.Err())
	n.err.CompareAndSwap(a.before, &err)
	for _, in := range a.batch {
		n.answer(in, allFailed(in.calls, err))
	}
	n.prepare() // before the pipeline is left, which Close waits for
	n.pipeline.leave()
}

// explain notes what the driver says after it was left, where that says more: it could
// not even connect.
func (a *asking) explain(results []driver.Result) {
	if driver.OutcomeOf(results[0].Err) == driver.OutcomeNotSent && a.node.heard.Load() <= a.begun.UnixMicro() {
		a.node.err.Store(&results[0].Err)
	}
}

func (n *node) answer(in inquiry, results []driver.Result) {
	n.asked.Add(-1)
	in.round.hear(n.place, results)
}

// exchange makes the calls of one request.
func (n *node) exchange(in inquiry) []driver.Result {
	conn, err := n.get(in.ctx)
	if err == nil {
		err = n.identify(in.ctx, conn)
	}
	if err != nil {
		return allFailed(in.calls, late(err))
	}
	results := n.runCommands(in.ctx, in.calls, in.commands)
	for i := range results {
		results[i].Err = late(results[i].Err)
	}
	return results
}

// note records how the node does.
func (n *node) note(results []driver.Result) {
	for _, r := range results {
		if r.Err == nil || driver.OutcomeOf(r.Err) == driver.OutcomeReplied {
			n.behind.Store(0)
			n.owed.Store(nil)
			n.heard.Store(time.Now().UnixMicro())
			if n.err.Load() != nil {
				n.err.Store(nil)
			}
			return
		}
	}
	n.err.Store(&results[0].Err)
}

var errSuspect = errors.New("locker: the node has not answered for a while and is asked only now and then")

// suspect reports whether decisions have been made without the node for a while.
// Requests must not pile up behind it.
//
// The number of decisions is no measure by itself: while a node that is far away
// answers once, others decide about as many locks as there are goroutines that want
// one.
func (n *node) suspect() bool {
	return n.behind.Load() > patience && n.silent() || n.asked.Load()-n.quorum.polls.Load() > maxLate
}

// silent reports whether the node has owed an answer for long. What counts is when it was
// asked, not when it answered last: it may have been asked nothing since.
func (n *node) silent() bool {
	first := n.owed.Load()
	return first != nil && time.Since(first.until) > n.quorum.cfg.NodeTimeout/2
}

// silent returns the nodes that have owed an answer for long.
func (q *quorum) silent() (silent nodeSet) {
	for i, n := range q.nodes {
		if n.silent() {
			silent.add(i)
		}
	}
	return silent
}

// ask puts in to the node. It returns false if the quorum is closed.
func (n *node) ask(in inquiry) bool {
	if n.owed.Load() == nil {
		n.owed.CompareAndSwap(nil, in.ctx)
	}
	if n.latest.Load() != in.ctx {
		n.latest.Store(in.ctx)
	}
	return n.pipeline.add(in)
}

// rank says how far behind others the node is asked where not all are.
func (n *node) rank() int {
	if n.suspect() {
		return 64
	}
	return bits.Len64(uint64(time.Duration(n.pace.Load()) / soon))
}
