package locker

import (
	"sync/atomic"

	"github.com/golocker/golocker/locker/driver"
)

// A bid is the SET that leads up to a lock, at the nodes that are asked first.
//
// A script that arrives after its id is over takes nothing, since the server has been told
// to remember that. SET cannot know of it: where the node was so slow that what ends the
// lease, or the attempt, has overtaken it on another connection, the node would keep the
// lock for a whole TTL. So that is put to the node once more, as soon as SET is answered.
type bid struct {
	moot atomic.Bool          // what has not gone out by now never does
	late atomic.Bool          // a node had not answered when it was decided
	over atomic.Pointer[call] // what ends the lease or the attempt, if late

	heard chan struct{} // closed when those that are late have answered; nil if none is
}

// isLate may be called on nil, as end may.
func (b *bid) isLate() bool { return b != nil && b.late.Load() }

// end is told what ends the lease or the attempt, before it goes out.
func (b *bid) end(by call) {
	if b.isLate() {
		b.moot.Store(true)
		over := by // else each call would be one more allocation
		b.over.Store(&over)
	}
}

// settle is told how a node has answered SET that had not when it was decided.
func (b *bid) settle(n *node, set driver.Result) {
	over := b.over.Load()
	refused := set.Err == nil && set.Value == nil || set.Err != nil && driver.OutcomeOf(set.Err) != driver.OutcomeUnknown
	if over == nil || refused {
		return // what ends it comes later, or has nothing to end here
	}
	n.quorum.tell(*over, only(n.place))
}
