package locker

import "time"

// A stopwatch is a clock that goes while somebody waits. The silence of a subscription counts
// by it, since nobody has anything to hear while nobody waits.
type stopwatch struct {
	before time.Duration // until it stopped
	since  time.Time     // from when on it goes; zero while it stands still
}

func (s *stopwatch) elapsed(now time.Time) time.Duration {
	if s.since.IsZero() {
		return s.before
	}
	return s.before + now.Sub(s.since)
}

func (s *stopwatch) start(now time.Time) {
	if s.since.IsZero() {
		s.since = now
	}
}

func (s *stopwatch) stop(now time.Time) {
	s.before, s.since = s.elapsed(now), time.Time{}
}
