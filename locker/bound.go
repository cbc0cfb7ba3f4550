package locker

import "time"

// A bound ends a lease before its tenure, however long others keep that.
type bound struct {
	limit term // when the maximum hold is reached, by a clock that also goes while the machine sleeps; zero if there is none
	own   term // how long the lease lasts, if it is not renewed
}

// newBound returns the bound of a lease of m that is good for ttl from that moment
// unless it is renewed.
func newBound(m *Mutex, from moment, ttl time.Duration) *bound {
	b := &bound{}
	if m.cfg.maxHold > 0 {
		taken := now()
		b.limit = term{taken.at.Add(m.cfg.maxHold), taken.asleep}
	}
	if !m.cfg.renew {
		b.own = newTerm(from, ttl)
	}
	return b
}

// catchUp brings both times to the present, if the machine was suspended.
func (b *bound) catchUp(now moment) {
	if !b.limit.deadline.IsZero() && b.limit.behind(now) {
		b.limit = b.limit.asOf(now)
	}
	if b.own.behind(now) {
		b.own = b.own.asOf(now)
	}
}

// maxHoldReached is false where there is no maximum hold.
func (b *bound) maxHoldReached(now moment) bool {
	return !b.limit.deadline.IsZero() && b.limit.leftAt(now) <= 0
}
