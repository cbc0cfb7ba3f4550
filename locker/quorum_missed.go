package locker

import (
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A release is done when most nodes have heard of it. A node that has the lock and does not hear of
// the release, as it cannot be reached, stands still or is restarted with its data, would keep the
// lock for its TTL, and the lock could not be acquired any more once another node is lost. So such
// a node is told until it answers, see due.
//
// That is for nodes that may have the lock. A node that could not be reached when the lock was
// taken has nothing, so a node that is down for long is not told of each lease.

// missedAt is told of a node that has not heard of the release. It returns whether the node is to
// be told at once, as it may have given the lock, for all that is known now. A node that has not
// answered whether it has is told by [rest.warn] or by [bid.answer].
func (t *tenure) missedAt(place int) bool {
	r := t.rest
	if r == nil {
		return t.may.has(place)
	}
	if r.bid.owes(place) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owed.has(place) {
		r.unaware.add(place)
		return false
	}
	return r.may.has(place)
}

// undone reports whether the node has not done what it was asked, and may do it another time, be it
// that somebody gives the user back a permission or password.
func undone(r driver.Result) bool {
	_, foreign := foreignReply("", r.Err)
	return r.Err != nil && !noConnection(r.Err) && !foreign
}

// missed has the node told what it has not heard of although the others have decided that it is done.
func (n *node) missed(c call, answer driver.Result) {
	if c.frees == nil || !undone(answer) || !c.frees.missedAt(n.place) {
		return
	}
	c.frees = nil
	until := time.Now().Add(n.quorum.cfg.LongestTTL) // no lease lasts longer
	n.told([]due{{c, until}}, []driver.Result{answer})
}

// missed is [node.missed] for the nodes that had failed by the time that it was
// decided.
func (q *quorum) missed(c call, b ballot) {
	for i, v := range b {
		if v.in {
			q.nodes[i].missed(c, v.Result)
		}
	}
}
