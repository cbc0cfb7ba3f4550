package locker

import (
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A node that has lost its data begins its quarantine when it is asked for a lock. Where
// locks are held for long, nobody asks for one, and the quarantine would still be ahead
// when the next node restarts, whenever that is. So a node that turns out to lack a lease
// is asked for its marker, and so is one that an administrator finds without a marker.

// miss has that done, if the answers say so. It is repeated no sooner than a small part of the
// quarantine later: a lease that the node never had is lacking at each renewal.
func (n *node) miss(calls []call, results []driver.Result) {
	renewed := false
	for i, c := range calls {
		unmarked := c.looksForLocks() && n.unmarked(readAnswer(results[i].Value))
		if unmarked || c.renews() && results[i].Value == int64(0) {
			n.mark(n.missPause())
			return
		}
		renewed = renewed || c.renews() && results[i].Value == int64(1)
	}
	if renewed {
		n.tend()
	}
}

// unmarked reports whether the node's whole quarantine lies ahead, by what it has told of a
// lock.
func (n *node) unmarked(a answer) bool { return a.young == n.quorum.cfg.LongestTTL }

func (n *node) missPause() time.Duration {
	return max(n.quorum.cfg.LongestTTL/16, n.quorum.cfg.NodeTimeout)
}

// missAt is miss where a node was asked past the quorum, by its link.
func (q *quorum) missAt(asked *link, a answer) {
	for _, n := range q.nodes {
		if n.link == asked && n.unmarked(a) {
			n.mark(n.missPause())
		}
	}
}

// tend has the node's marker live on where all that is asked of the node is to renew leases:
// otherwise the markers of all nodes would run out together, and no lock could be acquired
// for a quarantine.
func (n *node) tend() {
	last := n.tended.Load()
	if last != nil && time.Since(*last) < n.quorum.markerLife()/8 {
		return
	}
	now := time.Now()
	if n.tended.CompareAndSwap(last, &now) && last != nil { // at first a lock has been taken, which looks at the marker
		n.askMarker()
	}
}

// renews reports whether the call lengthens a lease.
func (c call) renews() bool {
	return c.script == mutexFamily.renew || c.script == holdFamily.renew
}

// looksForLocks reports whether the node is asked by an administrator what it knows.
func (c call) looksForLocks() bool { return c.script == inspectScript || c.script == breakScript }

// mark is askMarker, but for a while after the last time it does nothing.
func (n *node) mark(pause time.Duration) {
	now, last := time.Now(), n.marked.Load()
	if last != nil && now.Sub(*last) < pause || !n.marked.CompareAndSwap(last, &now) {
		return
	}
	n.askMarker()
}

// askMarker asks the node for its marker, which it writes, and waits for nothing.
func (n *node) askMarker() {
	q := n.quorum
	if !q.enter() {
		return
	}
	defer q.wg.Done()
	q.tell(markScript.call([]string{markerKey}, []string{q.longest, q.life}), only(n.place))
}

// markerPause is after how long a node that was asked nothing else, or that has an objection,
// is asked for its marker.
const markerPause = time.Second

// revisit has those of the nodes that were asked nothing lately asked for their markers, as
// leases that are over at once pass over a node that was slow or hung. Otherwise it would
// count as that for good, and its quarantine, if it has lost its data, would still be ahead
// when the next node fails.
func (q *quorum) revisit(passed nodeSet) {
	now := q.current.Load()
	for i, n := range q.nodes {
		last := n.latest.Load()
		if passed.has(i) && last != nil && now.until.Sub(last.until) >= markerPause && n.latest.CompareAndSwap(last, now) {
			n.askMarker()
		}
	}
}
