package locker

import "time"

// An alarm is one timer for many times, most of which mean nothing any more when they
// come. A timer for each, earlier than all others, would have Go's scheduler wake up a
// thread nearly each time. Its owner's lock guards it.
type alarm struct {
	ring  func()    // begins with ringing, and sets it for what is next
	at    time.Time // when it rings; zero if it does not
	timer *time.Timer
}

// by has ring called at the given time, or at an earlier one for which it is set already.
func (a *alarm) by(at time.Time) {
	if !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	if left := max(time.Until(at), soonest); a.timer == nil {
		a.timer = time.AfterFunc(left, a.ring)
	} else {
		a.timer.Reset(left)
	}
}

// soonest is when a timer goes off that should at once. In a synctest bubble one that has expired from
// the start is run in the goroutine that sets it; with the race detector Go 1.26 does so in
// the one context of all timers of the bubble, whoever else is in it, and may crash.
const soonest = time.Nanosecond

// ringing notes that it does not ring any more.
func (a *alarm) ringing() { a.at = time.Time{} }

// off stops it, until the next call of by.
func (a *alarm) off() {
	a.ringing()
	if a.timer != nil {
		a.timer.Stop()
	}
}
