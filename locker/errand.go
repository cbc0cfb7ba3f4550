package locker

import (
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// An errand is a request that must get through although nobody waits for it: a
// release, or the end of an attempt. It is repeated until the server answers, or
// until what it would clean up has lapsed by itself.
type errand struct {
	job   job
	name  string // of the lock, for reports
	call  call
	until time.Time
	tries int
	asked bool
}

const errandPause = time.Second

// run makes c an errand, unless the watchdog is closed.
func (w *watchdog) run(name string, c call, until time.Time) {
	e := &errand{name: name, call: c, until: until}
	e.job.task = e
	w.add(&e.job, time.Now())
}

func (e *errand) due(now time.Time) (bool, time.Time) {
	if e.asked || !now.Before(e.until) {
		return false, time.Time{}
	}
	e.asked = true
	return true, e.until.Add(errandPause)
}

func (e *errand) begin(time.Time) (call, time.Duration, bool) {
	return e.call, DefaultAttemptTimeout, true
}

func (e *errand) reply(_ moment, _ driver.Value, err error) time.Time {
	if err == nil || !transient(err) {
		return time.Time{}
	}
	e.asked = false
	e.tries++
	return time.Now().Add(min(10*time.Millisecond<<min(e.tries, 10), errandPause))
}
