package locker

import "time"

// A sharedTimer is one timer for many times, most of which mean nothing any more when they
// come. A timer for each, earlier than all others, would have Go's scheduler wake up a
// thread nearly each time. Its owner's lock guards it.
type sharedTimer struct {
	fire  func()    // begins with fired, and sets it for what is next
	at    time.Time // when it fires; zero if it is not set
	timer *time.Timer
}

// fireBy has fire called at the given time, or at an earlier one for which it is set already.
func (t *sharedTimer) fireBy(at time.Time) {
	if !t.at.IsZero() && !at.Before(t.at) {
		return
	}
	t.at = at
	if left := max(time.Until(at), soonest); t.timer == nil {
		t.timer = time.AfterFunc(left, t.fire)
	} else {
		t.timer.Reset(left)
	}
}

// soonest is when a timer that should go off at once does so. In a synctest bubble, a timer that
// has expired from the start is run in the goroutine that sets it. With the race detector, Go 1.26
// does so in the one context of all timers of the bubble, whoever else is in it, and may crash.
const soonest = time.Nanosecond

// fired notes that it is not set any more.
func (t *sharedTimer) fired() { t.at = time.Time{} }

// stop stops it, until the next call of fireBy.
func (t *sharedTimer) stop() {
	t.fired()
	if t.timer != nil {
		t.timer.Stop()
	}
}
