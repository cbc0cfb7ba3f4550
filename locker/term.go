package locker

import "time"

// A term is the time in which a holder may believe in its lease. It runs from the
// sending of the request that armed the server's TTL, which is before the server
// began to count, and ends early by a margin, so that the holder has stopped by
// the time the server lets anybody else in (invariants I1 and I2 of docs/guarantees.md).
type term struct {
	deadline time.Time
	asleep   time.Duration // as of the sending
}

// margin covers clocks that run at different rates, the server's rounding, and
// timers that fire late.
func margin(ttl time.Duration) time.Duration {
	return ttl/100 + 2*time.Millisecond + lateness(ttl)
}

// lateness is how late the end of a lease's context may be. Go timers were seen
// to fire 101 ms late on a starved CPU.
func lateness(ttl time.Duration) time.Duration {
	return max(ttl/20, 100*time.Millisecond)
}

// A moment is a time and what the machine had slept by then, of which the monotonic clock knows
// nothing. Two moments between which it has slept are compared after the earlier one was brought
// to the later by [moment.asOf]. That of a request is taken before the request is written.
type moment struct {
	at     time.Time
	asleep time.Duration // how long the machine had been suspended by then
}

// now is the present moment. How long the machine has slept by then may be known from a look up to a
// second ago, see [suspendClock.recent].
func now() moment {
	t := time.Now()
	return moment{at: t, asleep: suspended.recent(t)}
}

// exactNow is now for whoever must not miss a suspension that has just ended: it looks at the clocks.
func exactNow() moment {
	asleep := suspended.now()
	return moment{at: time.Now(), asleep: asleep}
}

func (m moment) add(d time.Duration) moment { return moment{m.at.Add(d), m.asleep} }

// asOf is m as it stands at a later moment: what the machine has slept in between, of which the
// monotonic clock knows nothing, has passed for the server.
func (m moment) asOf(now moment) moment {
	if slept := now.asleep - m.asleep; slept > suspendedNoise {
		at := now.at.Add(m.at.Sub(now.at)) // the wall clock, which people read, has gone on already
		return moment{at.Add(-slept), now.asleep}
	}
	return m
}

func newTerm(sent moment, ttl time.Duration) term {
	return term{deadline: sent.at.Add(ttl - margin(ttl)), asleep: sent.asleep}
}

// behind reports whether the term does not stand as of now, since the machine has
// slept.
func (t term) behind(now moment) bool { return now.asleep-t.asleep > suspendedNoise }

// leftAt is how much of the term remains, by the monotonic clock and by the time
// that the machine has been suspended, which that clock does not know of.
func (t term) leftAt(now moment) time.Duration {
	if t.behind(now) {
		return t.asOf(now).deadline.Sub(now.at)
	}
	return t.deadline.Sub(now.at)
}

// asOf is the term as it stands at a later moment.
func (t term) asOf(now moment) term {
	m := moment{t.deadline, t.asleep}.asOf(now)
	return term{m.at, m.asleep}
}

// later returns the one of two terms that has more left. Both stand as at one moment.
func (t term) later(other term) term {
	if other.deadline.After(t.deadline) {
		return other
	}
	return t
}
