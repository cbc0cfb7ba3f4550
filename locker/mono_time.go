package locker

import "time"

// A monoTime is a time by the monotonic clock alone: 8 bytes instead of the 24 of a [time.Time],
// for what each lease has of its own. The zero monoTime is no time.
type monoTime time.Duration // since the process began

var processStart = time.Now()

func monoTimeOf(t time.Time) monoTime { return monoTime(t.Sub(processStart)) }

// time returns m in the form that others measure by. People are shown what [monoTime.sub]
// makes of it: the wall clock may have been set since the process began.
func (m monoTime) time() time.Time { return processStart.Add(time.Duration(m)) }

func (m monoTime) sub(t time.Time) time.Duration { return time.Duration(m - monoTimeOf(t)) }

// after is false for the zero monoTime, which is no time.
func (m monoTime) after(t time.Time) bool { return m != 0 && m > monoTimeOf(t) }
