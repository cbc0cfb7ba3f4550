package locker

import (
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

// A round is one canvass of the nodes. What a node answers is looked at by the goroutine
// that has asked it, and the one that waits for the decision is woken once, by the answer
// that decides: waking it for each answer would cost as much as all else that is done for a
// lock.
type round struct {
	quorum *quorum
	in     inquiry
	bid    *bid // of the nodes that are led up to; may be nil
	order  order
	spared nodeSet
	doubt  nodeSet       // see question
	done   chan struct{} // has room for one, which comes when the round is over

	mu       sync.Mutex // guards all below
	show     func(node int, answers []driver.Result) (decided bool)
	begun    int // how many of order were asked, or passed over
	over     bool
	decided  bool // by the answers
	asked    nodeSet
	answered nodeSet
	owed     nodeSet // of bid, when it was decided
	refused  nodeSet // have said since that others have the lock
	unsent   nodeSet // have not been reached, and have nothing
	lost     nodeSet // were asked, and have not answered in time since, or not what they were asked before
	rest     *rest   // is told of that; nil if there is no lease yet, or none that wants to know
}

func newRound(q *quorum, ask question, show func(int, []driver.Result) bool) *round {
	r := &round{quorum: q, order: inOrder, bid: ask.bid, doubt: ask.doubtful, done: make(chan struct{}, 1), show: show}
	r.in = inquiry{ctx: q.span(), calls: ask.calls, commands: commands(ask.calls), round: r, moot: ask.moot}
	if !ask.earnest {
		r.spared = q.spared()
	}
	if ask.lead != nil {
		r.order = q.order(ask.calls[0].key())
	}
	return r
}

// begin puts lead to a majority, or the question to all if there is none.
func (r *round) begin(lead []call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if lead == nil {
		r.ask(len(r.quorum.nodes), r.in)
		return
	}
	first := r.in
	first.calls, first.commands = lead, commands(lead)
	r.ask(majority(len(r.quorum.nodes)), first)
}

// askRest puts the question to all nodes that were not asked yet.
func (r *round) askRest() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.ask(len(r.quorum.nodes), r.in)
	}
}

// hear takes note of what a node has answered; if the round is over, that it has.
func (r *round) hear(place int, answers []driver.Result) {
	r.mu.Lock()
	late, open := r.over, leavesOpen(answers[0], r.doubt.has(place))
	r.note(place, answers)
	switch {
	case late && refuses(answers[0]):
		r.refused.add(place)
	case late && open:
		r.lost.add(place)
	case late && unreached(answers[0]):
		r.unsent.add(place)
	}
	owed, last, rest := r.owed.has(place), r.owed&^r.answered == 0, r.rest
	decided := late && r.decided
	r.mu.Unlock()
	if decided {
		for i, c := range r.in.calls {
			r.quorum.nodes[place].missed(c, answers[i])
		}
	}
	if late && rest != nil {
		rest.hear(place, answers[0], open)
	}
	if !owed {
		return
	}
	r.bid.answer(r.quorum.nodes[place], answers[0])
	if last {
		close(r.bid.heard)
	}
	r.quorum.wg.Done()
}

// tells has rest told what nodes answer from now on. It returns the nodes that have said, since it
// was decided, that others have the lock; those that could not be reached; those that have not
// answered a script; and of the last, the ones that had their time.
func (r *round) tells(rest *rest) (refused, unsent, owed, lost nodeSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rest = rest
	owed = r.asked &^ r.owed &^ (r.answered &^ r.lost)
	return r.refused, r.unsent, owed, r.lost & owed
}

// note needs mu, as do all below but end and leaveBehind.
func (r *round) note(place int, answers []driver.Result) {
	r.answered.add(place)
	if r.over {
		return
	}
	decided := r.show(place, answers)
	r.decided = decided
	if !decided && (answers[0].Err != nil || r.answered == r.asked) {
		r.ask(len(r.quorum.nodes), r.in)
	}
	if decided || r.answered.len() == len(r.quorum.nodes) {
		r.finish()
	}
}

// ask puts in to the first n nodes in order that were not asked yet.
func (r *round) ask(n int, in inquiry) {
	type answer struct {
		place   int
		results []driver.Result
	}
	var early []answer // heard when all are asked, as others are
	for ; r.begun < n; r.begun++ {
		node := r.quorum.nodes[r.order[r.begun]]
		r.asked.add(node.place)
		switch {
		case in.needless(node.place):
			early = append(early, answer{node.place, unasked(in.calls)})
		case node.asked.Add(1) > maxProbes && r.spared.has(node.place):
			node.asked.Add(-1)
			early = append(early, answer{node.place, allFailed(in.calls, driver.NotSent(errSuspect))})
		case !node.ask(in):
			node.asked.Add(-1)
			early = append(early, answer{node.place, allFailed(in.calls, driver.NotSent(ErrClosed))})
		}
	}
	for _, a := range early {
		r.note(a.place, a.results)
	}
}

func (r *round) finish() {
	if !r.over {
		r.over = true
		r.done <- struct{}{}
	}
}

// end ends the round, if it is not over. Where err is not nil, it is shown as the answer of
// each node that has not answered.
func (r *round) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.quorum.nodes {
		if err != nil && !r.over && !r.answered.has(i) && r.show(i, allFailed(r.in.calls, err)) {
			break
		}
	}
	r.finish()
}

// leaveBehind returns the nodes that were not asked, when the round is over. Those that have
// not answered are behind from now on, and may owe what a bid has come to.
func (r *round) leaveBehind() (unasked nodeSet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, place := range r.order[:len(r.quorum.nodes)] {
		switch node := r.quorum.nodes[place]; {
		case !r.asked.has(node.place):
			unasked.add(node.place)
		case !r.answered.has(node.place):
			node.behind.Add(1)
			if r.bid != nil && i < majority(len(r.quorum.nodes)) {
				r.owe(node.place)
			}
		}
	}
	return unasked
}

func (r *round) owe(place int) {
	r.quorum.wg.Add(1) // until hear
	if r.owed == 0 {
		r.bid.heard = make(chan struct{})
	}
	r.owed.add(place)
	r.bid.late.Store(true)
}

// needless reports whether none of the calls concerns the node.
func (in inquiry) needless(place int) bool {
	for _, c := range in.calls {
		if !c.clear.has(place) {
			return false
		}
	}
	return true
}
