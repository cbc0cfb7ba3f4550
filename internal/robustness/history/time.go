package history

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Time is an instant of CLOCK_MONOTONIC, in nanoseconds, or a length of time. All
// processes of a machine read the same clock, nobody can set it, and it goes on
// while a process is stopped.
type Time int64

// Now reads the clock.
func Now() Time {
	var ts unix.Timespec
	// The clock is always there, see clock_gettime(2).
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return Time(ts.Nano())
}

// Sub returns how long t is after u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add returns the instant d after t.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }
