package history

import (
	"math"
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

// Of returns the instant of a time that was read from the clock of package time, which
// has a reading of the same clock.
func Of(t time.Time) Time { return origin.at.Add(t.Sub(origin.read)) }

// origin is one instant by both clocks, as closely as can be told in a few readings.
var origin = func() (o struct {
	at   Time
	read time.Time
}) {
	closest := Time(math.MaxInt64)
	for range 100 {
		before, read, after := Now(), time.Now(), Now()
		if after-before < closest {
			closest, o.at, o.read = after-before, before+(after-before)/2, read
		}
	}
	return o
}()

// Sub returns how long t is after u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add returns the instant d after t.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }
