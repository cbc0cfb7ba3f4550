package locker

import (
	"sync"
	"time"
)

// suspended measures how long this machine was suspended since the process began.
// Go's monotonic clock stands still in that time while the server's TTLs run on.
var suspended = &suspendClock{start: time.Now()}

// suspendedNoise is below what suspending a machine takes, and above the
// resolution of the clocks compared.
const suspendedNoise = 100 * time.Millisecond

type suspendClock struct {
	start time.Time

	mu     sync.Mutex
	origin time.Duration // uptime at start
	ok     bool          // this system tells its uptime
	sample time.Duration
	at     time.Time
}

// now reads the clocks.
func (s *suspendClock) now() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.read(time.Now())
}

// recent is now, or a value up to a second older. An older value is smaller, and a
// term that begins with it is found to have ended too early rather than too late.
func (s *suspendClock) recent() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if age := now.Sub(s.at); age >= 0 && age < time.Second {
		return s.sample
	}
	return s.read(now)
}

func (s *suspendClock) read(now time.Time) time.Duration {
	// The clock of a testing/synctest bubble begins in the year 2000 and has nothing
	// to do with the machine's uptime.
	if s.start.Round(0).Sub(now.Round(0)) > 24*time.Hour {
		return 0
	}
	up, ok := uptime()
	if !ok {
		return 0
	}
	if !s.ok {
		s.ok, s.origin = true, up-now.Sub(s.start)
	}
	s.sample, s.at = up-s.origin-now.Sub(s.start), now
	return s.sample
}
