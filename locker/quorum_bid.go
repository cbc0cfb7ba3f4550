package locker

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A bid is the SET that leads up to a lock, at the nodes that are asked first.
//
// A script that arrives after its id is over takes nothing, since the server has been told
// to remember that. SET cannot know of it: where the node was so slow that the request that
// ends the lease, or the attempt, has overtaken SET on another connection, the node would keep
// the lock for a whole TTL. So that request is put to the node once more, as soon as SET is
// answered or has had its time.
type bid struct {
	moot atomic.Bool // what has not gone out by now never does
	late atomic.Bool // a node had not answered when it was decided

	heard chan struct{} // closed when those that are late have answered; nil if none is
	life  time.Duration // for how long a node that does not answer is told what ends it

	mu    sync.Mutex
	over  *call   // what ends the lease or the attempt, if late
	ended bool    // that has been answered, as far as anybody counts the answers
	again nodeSet // those to which it is put once more then
	lost  nodeSet // have not answered SET in their time, and are told
}

// isLate may be called on nil, as end and settled may.
func (b *bid) isLate() bool { return b != nil && b.late.Load() }

// end is told what ends the lease or the attempt, before it goes out.
func (b *bid) end(by call) {
	if b.isLate() {
		b.moot.Store(true)
		over := by // else each call would be one more allocation
		b.mu.Lock()
		b.over = &over
		b.mu.Unlock()
	}
}

// answer is told how a node that had not answered SET when it was decided has answered
// it.
func (b *bid) answer(n *node, set driver.Result) {
	if set.Err == nil && set.Value == nil || set.Err != nil && driver.OutcomeOf(set.Err) != driver.OutcomeUnknown {
		return // there is nothing to end here
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if noAnswer(set) {
		b.lost.add(n.place)
	}
	switch {
	case b.over == nil && !noAnswer(set): // what ends it comes later
	case !b.ended:
		// Were it told now, a release that is under way would find nothing, and seem to
		// be that of a lease that was lost.
		b.again.add(n.place)
	default:
		n.owe(*b.over, b.life)
	}
}

// owes reports whether the node is told what ends the lease for want of an answer to SET. It may be
// called on nil.
func (b *bid) owes(place int) bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.lost.has(place)
}

// settled is told that what ends the lease, or the attempt, has been answered, or nobody waits for
// that any more.
func (b *bid) settled(q *quorum) {
	if !b.isLate() {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	if b.again == 0 || !q.enter() {
		return
	}
	defer q.wg.Done()
	q.owe(*b.over, b.life, b.again)
	b.again = 0
}
