package locker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A node may have said that others have the lock when a majority had given it: a contender that lost
// the vote held it there for a moment, or somebody's release has not reached it. Such a node is asked
// again, as long as the lease is held. Otherwise a lease that was contended for would stand on a
// bare majority for the whole of its life, and be lost with one of its nodes.
//
// This is no renewal that brings a lease back to a node which has forgotten it: a node that says no
// has nothing of the lease, and the request is the late first step that [rest.ask] makes at the
// nodes that were not asked. A node that cannot be reached then, or is loading its data, has
// nothing of the lease either, and has its next turn. A node that may have had the lease is never
// asked again: it has said yes; or it has not answered, be it to an earlier request of the same
// attempt; or it takes no part since it may have forgotten.

// A returning is the nodes of a lease that are to be asked again.
type returning struct {
	nodes nodeSet
	tries int
	at    time.Time // when they are; zero if there are none
}

// againPause is after how long a node is asked again at least, and five times as much is the most.
// A contender that lost the vote gives back what it has within a few round trips. From one time to
// the next the pause is 4 times longer, until it is beyond the longest TTL: for so long, what a
// missed release has left stands in the way.
const againPause = 20 * time.Millisecond

// refuses reports whether the answer to a call for a lock says that the node has nothing of the
// lock, and might have given it at another time: the lock is not free there, or the node was asked
// too little.
func refuses(r driver.Result) bool {
	if r.Err != nil {
		return false
	}
	status, _, ok := splitReply(r.Value)
	return r.Value == nil || ok && (status == 0 || status == 2) // see [request.acquired], and [node.set]
}

// failsNow reports whether the answer to a call for a lock says that the node has nothing of the
// lock by that call, and may do what it is asked another time: it was not reached, or is loading
// its data.
func failsNow(r driver.Result) bool {
	switch driver.OutcomeOf(r.Err) {
	case driver.OutcomeNotSent:
		return true
	case driver.OutcomeReplied:
		return transient(r.Err) && !midway(r.Err)
	}
	return false
}

// hears has the rest told what those of the nodes that have not answered yet answer to round. The
// doubtful nodes may have had the lease before.
func (r *rest) hears(round *round, nodes, doubtful nodeSet) {
	if nodes == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heeded |= nodes &^ doubtful
	refused, unsent, owed, lost := round.tells(r)
	r.refusedBy(refused & r.heeded)
	r.may &^= unsent & nodes
	r.owed |= owed & nodes
	r.lost |= lost & nodes
}

// hear is told what a node has answered, and whether that leaves open what it does.
func (r *rest) hear(place int, answer driver.Result, open bool) {
	r.mu.Lock()
	var t *tenure
	switch {
	case !open:
		r.owed &^= only(place)
		if unreached(answer) {
			r.may &^= only(place)
		}
	case r.owed.has(place):
		r.lost.add(place)
	}
	r.warn()
	// That a node fails is no reason to begin asking again, nor one to end it: it may be restarting.
	nothing := refuses(answer) || r.again != nil && r.again.tries > 0 && failsNow(answer)
	if nothing && r.refusedBy(only(place)&r.heeded) {
		t = r.tenure
	}
	r.mu.Unlock()
	if t != nil {
		t.replan()
	}
}

// refusedBy notes nodes that have nothing of the lock, and tells whether it has now been settled when they
// are asked again. It needs mu.
func (r *rest) refusedBy(nodes nodeSet) (settled bool) {
	if nodes == 0 {
		return false
	}
	if r.again == nil {
		r.again = &returning{}
	}
	r.again.nodes |= nodes
	return r.settle()
}

// settle needs mu.
func (r *rest) settle() bool {
	a := r.again
	pause := againPause << (2 * a.tries)
	if r.tenure == nil || a.nodes == 0 || !a.at.IsZero() || pause > r.quorum.cfg.LongestTTL {
		return false
	}
	a.at = time.Now().Add(pause + rand.N(4*pause))
	return true
}

// begin is told that the lease is held, and returns whether nodes are to be asked again. It may be
// called on nil.
func (r *rest) begin(t *tenure) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tenure = t
	return r.again != nil && r.settle()
}

// nextAsking is when nodes are asked again, zero if none is. It may be called on nil.
func (r *rest) nextAsking() time.Time {
	if r == nil {
		return time.Time{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.again == nil {
		return time.Time{}
	}
	return r.again.at
}

// askAgain asks these nodes if it is time. The caller must know that the lease is held, for left
// longer unless it is renewed: what the nodes give lasts no longer than what the others have given,
// as no answer is waited for. It may be called on nil.
func (r *rest) askAgain(now time.Time, left time.Duration) {
	if at := r.nextAsking(); at.IsZero() || now.Before(at) {
		return
	}
	r.ask() // from now on the release concerns all nodes
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.again
	a.at = time.Time{}
	left = left.Truncate(time.Millisecond)
	if left <= 0 || !r.quorum.enter() {
		return
	}
	defer r.quorum.wg.Done()
	nodes := a.nodes
	a.tries++
	r.heeded |= nodes
	a.nodes = r.quorum.put(r.call.arming(left), nodes, r)
	r.asked(nodes &^ a.nodes)
	r.settle()
}

// arming is the call, made by [acquireCall], with another TTL. It takes no place in the queue of a node that
// still refuses, as whoever makes it holds the lock.
func (c call) arming(ttl time.Duration) call {
	c.command.Args = slices.Clone(c.command.Args)
	args := c.args()
	args[acquireTTL], args[acquireReservation], args[acquireChannel] = millis(ttl), "", ""
	return c
}

// replan lets the watchdog know of a time that has been settled.
func (t *tenure) replan() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != nil {
		t.plan()
	}
}
