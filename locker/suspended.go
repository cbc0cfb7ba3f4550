package locker

import (
	"math"
	"sync"
	"time"
)

// suspended measures how long this machine was suspended since the process began.
// Go's monotonic clock stands still in that time while the server's TTLs run on.
var suspended = &suspendClock{start: time.Now(), wall: wall, uptime: func() (time.Duration, bool) {
	if bubbled(time.Now()) {
		return 0, false
	}
	return uptime()
}}

// suspendedNoise is below what suspending a machine takes, and above the
// resolution of the clocks compared.
const suspendedNoise = 100 * time.Millisecond

type suspendClock struct {
	start  time.Time
	wall   func(time.Time) time.Time // a time by the wall clock alone
	uptime func() (time.Duration, bool)

	mu     sync.Mutex
	origin time.Duration // uptime at start
	ok     bool          // it is known
	sample time.Duration
	at     time.Time
}

func wall(t time.Time) time.Time { return t.Round(0) }

// bubbled reports whether now is by the clock of a testing/synctest bubble, which has nothing
// to do with the machine's uptime. Such a time has no monotonic reading. Every other time has
// one, whatever the wall clock shows, which may be years off when a machine starts and is put
// right later.
func bubbled(now time.Time) bool { return now == wall(now) }

// now reads the clocks.
func (s *suspendClock) now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(time.Now())
}

// recent is what now returns at that moment, or a value up to a second older. The age of the
// value stands still, too, while the machine is suspended, so the wall clock is asked whether it
// has been suspended since. The wall clock may have been set by hand, and decides only whether
// the clocks are read.
func (s *suspendClock) recent(now time.Time) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if age := now.Sub(s.at); age >= 0 && age < time.Second {
		if ahead := s.wall(now).Sub(s.wall(s.at)) - age; ahead.Abs() < suspendedNoise {
			return s.sample
		}
	}
	return s.read(now)
}

// unnoticed is how long a goroutine that waits by the monotonic clock may go without looking
// here, since a timer comes late by the time that the machine sleeps. With a TTL of 20 s or
// more, it is less than a lease's context may be late anyway. Longer TTLs allow for no more: a
// lease may be over when the machine resumes.
func (s *suspendClock) unnoticed() time.Duration {
	if _, ok := s.uptime(); !ok {
		return idleWake // there is nothing to be seen
	}
	return time.Second
}

func (s *suspendClock) read(now time.Time) time.Duration {
	now, up, ok := s.together(now)
	if !ok {
		return 0
	}
	if !s.ok {
		s.ok, s.origin = true, up-now.Sub(s.start)
	}
	s.sample, s.at = up-s.origin-now.Sub(s.start), now
	return s.sample
}

const (
	// closeBy is how far apart the readings of the two clocks may be, and readings how
	// often they are repeated to come so close.
	closeBy  = suspendedNoise / 10
	readings = 5
)

// together reads both clocks at nearly the same time; the first reading of the
// monotonic clock is given. A process that has no processor for a while between the two
// readings would take that while for a suspension, and its leases for over.
func (s *suspendClock) together(before time.Time) (now time.Time, up time.Duration, ok bool) {
	closest := time.Duration(math.MaxInt64)
	for range readings {
		read, ok := s.uptime()
		if !ok {
			return before, 0, false
		}
		after := time.Now()
		if apart := after.Sub(before); apart < closest {
			closest, now, up = apart, before, read
		}
		if closest < closeBy {
			break
		}
		before = after
	}
	return now, up, true
}
