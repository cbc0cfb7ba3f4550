package locker

import "time"

// A stamp is a time in the eight bytes that its reading of the monotonic clock takes, for what
// there is one of for each lease. The zero stamp is no time.
type stamp time.Duration // since the process began

var processStart = time.Now()

func stampOf(t time.Time) stamp { return stamp(t.Sub(processStart)) }

// time is it as others measure by. People are shown what [stamp.sub] makes of it: the wall
// clock may have been set since the process began.
func (s stamp) time() time.Time { return processStart.Add(time.Duration(s)) }

func (s stamp) sub(t time.Time) time.Duration { return time.Duration(s - stampOf(t)) }

// after is false of no time.
func (s stamp) after(t time.Time) bool { return s != 0 && s > stampOf(t) }
