package locker

import "github.com/golocker/golocker/locker/driver"

// A script for a lock that a node has not answered may still be on its way, in a buffer of the network or to a server
// that stands still, and may be executed long after the lease is over. So the nodes are to remember for longer than usual
// that it is.
//
// Most have only not answered yet, since a majority has decided, and do so within a round trip: a key that stays for a
// minute would be too much for that. Where the lease is over before, the node is told when its time has passed.

// noAnswer tells that the node may do what it was asked, or have done it.
func noAnswer(r driver.Result) bool {
	return r.Err != nil && driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
}

// owes tells, for the release, that some script may be executed long after it. If nothing can be told later, as the client
// closes, that is one whose node has the time to answer still, too. It may be called on nil.
func (r *rest) owes(last bool) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if last {
		r.lost |= r.owed
	}
	r.warned |= r.lost // by the release
	return r.lost != 0
}

// warn tells the nodes whose time has passed that the lease is over, if it is. A release that is under way goes first: it
// would find nothing, and seem to be that of a lease that was lost. It needs mu.
func (r *rest) warn() {
	nodes := r.lost &^ r.warned
	if nodes == 0 || !r.over || !r.ended || !r.quorum.enter() {
		return
	}
	defer r.quorum.wg.Done()
	t := r.tenure
	r.quorum.tell(t.client.store.releaseCall(t.mutex, t.id, t.reservation, voidLife(t.mutex.ttl)), nodes)
	r.warned |= nodes
}
