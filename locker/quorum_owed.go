package locker

import "github.com/golocker/golocker/locker/driver"

// A script for a lock that a node has not answered may still be on its way, in a buffer of the network or to a server
// that stands still, and may be executed long after the lease is over. So the nodes are to remember for longer than usual
// that the lease is over.
//
// Most of these nodes have only not answered yet, since a majority has decided, and do so within a
// round trip: a key that stays for a minute would be too much for that. Where the lease is over
// before a node answers, the node is told when its time has passed, and again if it does not answer
// that either.

// noAnswer reports whether the node may do what it was asked, or have done it.
func noAnswer(r driver.Result) bool {
	return r.Err != nil && driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
}

// leavesOpen is noAnswer of a node that, if doubtful, may still be doing what it was asked
// before: that it could not be reached this time says nothing about that.
func leavesOpen(r driver.Result, doubtful bool) bool {
	return noAnswer(r) || unreached(r) && doubtful
}

func unreached(r driver.Result) bool {
	return r.Err != nil && driver.OutcomeOf(r.Err) == driver.OutcomeNotSent
}

// owes reports, for the release, whether some script may be executed long after it. If nothing can
// be told later, as the client closes, that includes a script whose node still has the time to
// answer. It may be called on nil.
func (r *rest) owes(last bool) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last {
		r.lost |= r.owed
		r.warned |= r.lost // by the release, as well as can be
	}
	return r.lost != 0
}

// wait has Close wait for the nodes that owe an answer and know nothing yet: they may have to be told. It needs mu.
func (r *rest) wait() {
	if !r.waits && r.owed&^r.warned != 0 {
		r.waits = r.quorum.enter()
	}
}

// warn tells the nodes whose time has passed that the lease is over, if it is, and those that have answered since and have not
// heard of that. A release that is under way goes first: otherwise it would find nothing, and seem
// to be that of a lease that was lost. It needs mu.
func (r *rest) warn() {
	if !r.waits || !r.ended {
		return
	}
	if nodes := (r.lost | r.unaware&r.may&^r.owed) &^ r.warned; nodes != 0 {
		r.quorum.owe(r.parting(), voidLife(r.tenure.mutex.ttl), nodes)
		r.warned |= nodes
	}
	if r.owed&^r.warned == 0 {
		r.waits = false
		r.quorum.wg.Done()
	}
}

// parting is what these nodes are told. A detached lease goes on: if the node has it by now,
// whoever takes it up has it there, too.
func (r *rest) parting() call {
	t := r.tenure
	life := voidLife(t.mutex.ttl)
	if r.detached {
		return t.voidCall(life)
	}
	return t.client.store.releaseCall(t.mutex, t.id, t.reservation, life)
}
