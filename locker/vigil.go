package locker

import "time"

// A vigil is a clock that goes while somebody waits. The silence of a subscription counts
// by it, since nobody has anything to hear while nobody waits.
type vigil struct {
	kept  time.Duration // until it stopped
	since time.Time     // from when on it goes; zero while it stands still
}

func (v *vigil) at(now time.Time) time.Duration {
	if v.since.IsZero() {
		return v.kept
	}
	return v.kept + now.Sub(v.since)
}

func (v *vigil) begin(now time.Time) {
	if v.since.IsZero() {
		v.since = now
	}
}

func (v *vigil) end(now time.Time) {
	v.kept, v.since = v.at(now), time.Time{}
}
