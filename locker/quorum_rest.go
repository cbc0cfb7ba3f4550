package locker

import (
	"context"
	"sync"
	"time"
)

// A rest is the nodes that had not been asked for a lock when a majority had given it, or
// have not answered yet. They are asked a moment later, so that the loss of a node costs
// the lease nothing; but a lease that is over by then, as most are that guard a few
// instructions, never occupies them.
//
// Besides, a rest is told what the nodes that have been asked answer, since those that
// refuse are asked again.
type rest struct {
	quorum *quorum
	call   call
	bid    *bid // not answered by all; nil if there is none
	former call // ends the id that the lease was taken up from, at nodes that were late; none if it was not

	formerEnded bool // the nodes have been told so; the tenure's mu guards it

	mu      sync.Mutex
	tenure  *tenure    // once there is one
	again   *returning // nil if no node has refused
	nodes   nodeSet    // not asked; never changed
	heeded  nodeSet    // have nothing of the lock if they refuse
	may     nodeSet    // may have given the lock
	owed    nodeSet    // were asked by a script, and have not answered
	lost    nodeSet    // of these, have had their time
	unaware nodeSet    // were asked by a script, and have not heard of the release
	warned  nodeSet    // of these, are told to remember for long that the lease is over, see due
	done    bool       // asked, or not to be asked any more
	kept    bool       // not asked
	waits   bool       // Close waits for these: the lease is given up
	ended   bool       // that has been answered, as far as anybody counts the answers

	detached bool // it was left to another process
}

// restPause is how long the rest of the nodes is not asked. Until then the lease has no
// more than a majority, so that it cannot be renewed if one of those is lost; nobody
// else can have it.
const restPause = time.Millisecond

// drop returns the nodes that were not asked and will not be asked any more: they hold
// nothing. It may be called on nil.
func (r *rest) drop() nodeSet {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		r.done, r.kept = true, true
		r.quorum.revisit(r.nodes)
	}
	if r.kept {
		return r.nodes
	}
	return 0
}

// end is told what ends the lease. It may be called on nil.
func (r *rest) end(by call) {
	if r == nil {
		return
	}
	r.mu.Lock()
	r.ended = false
	r.wait()
	r.mu.Unlock()
	r.bid.end(by)
	r.endFormer()
}

// settled is told that what ends the lease has been answered. It may be called on nil.
func (r *rest) settled() {
	if r == nil {
		return
	}
	r.bid.settled(r.quorum)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	r.warn()
}

// endFormer tells the nodes, until they answer, that the id from which the lease was taken up is
// over: another taker, which lost, may have had the lease at some of them, and gives it back there.
func (r *rest) endFormer() {
	if r.former.script == nil || r.formerEnded || !r.quorum.enter() {
		return
	}
	defer r.quorum.wg.Done()
	r.quorum.owe(r.former, voidLife(r.tenure.mutex.ttl), r.quorum.all())
	r.formerEnded = true
}

// leave is told that the lease is detached. It may be called on nil.
func (r *rest) leave() {
	if r == nil {
		return
	}
	r.endFormer()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.detached, r.ended = true, true // no request ends it
	r.wait()
	r.warn()
}

// awaitAnswers waits for the nodes that have not answered yet: once the lease is detached, nobody
// could tell them what becomes of it. But it leaves half of the time that there is until the lease,
// or ctx, ends, since a node that hangs must not cost the lease. It may be called on nil.
func (r *rest) awaitAnswers(ctx context.Context, deadline time.Time) {
	if r == nil || r.bid == nil {
		return
	}
	r.bid.moot.Store(true)
	within := min(DefaultAttemptTimeout, time.Until(deadline)/2)
	if end, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(end)/2)
	}
	await(ctx.Done(), r.bid.heard, within)
}

// ask asks the rest of the nodes, unless that is done or they were dropped. It may be
// called on nil.
func (r *rest) ask() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done || !r.quorum.enter() {
		return
	}
	defer r.quorum.wg.Done()
	r.done = true
	r.heeded |= r.nodes
	r.asked(r.nodes &^ r.quorum.put(r.call, r.nodes, r))
}

// asked notes nodes that were asked for the lock. It needs mu.
func (r *rest) asked(nodes nodeSet) { r.owed, r.may = r.owed|nodes, r.may|nodes }

// tell puts c to the nodes. Nobody waits for the answers. The caller must have entered the
// quorum.
func (q *quorum) tell(c call, nodes nodeSet) { q.put(c, nodes, nil) }

// put is tell, but rest hears the answers if it is not nil. It returns the nodes that are spared: they are asked
// nothing, and rest does not hear of them.
func (q *quorum) put(c call, nodes nodeSet, rest *rest) (spared nodeSet) {
	round := newRound(q, question{calls: []call{c}}, nil)
	round.mu.Lock()
	defer round.mu.Unlock()
	round.over, round.rest = true, rest
	n := 0
	for i := range q.nodes {
		if nodes.has(i) {
			round.order[n] = uint8(i)
			n++
		}
	}
	round.ask(n, round.in)
	return round.answered // by nobody else, who would need mu
}

// rests are those that wait to be asked.
type rests struct {
	mu      sync.Mutex
	waiting []*rest
}

// add has r asked when restPause has passed. One timer serves all that come meanwhile.
func (w *rests) add(r *rest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting = append(w.waiting, r); len(w.waiting) == 1 {
		time.AfterFunc(restPause, w.ask)
	}
}

func (w *rests) ask() {
	w.mu.Lock()
	waiting := w.waiting
	w.waiting = nil
	w.mu.Unlock()
	for _, r := range waiting {
		r.ask()
	}
}
