package locker

import (
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// An errand is a request that must get through although nobody waits for it: a
// release, or the end of an attempt. It is repeated until the server answers, or
// until what it would clean up has lapsed by itself.
type errand struct {
	job    job
	client *Client
	name   string // of the lock, for reports
	call   call
	until  time.Time
	frees  bool   // without it a lock may stay taken
	held   bool   // it is about a lease that was had
	done   func() // called when it is over

	mu    sync.Mutex
	tries int
	asked bool
}

const (
	// maxErrands bounds what a client remembers to clean up after attempts while its
	// server does not answer. What is beyond lapses with its TTL. Leases bound themselves
	// how many of them there are to be released.
	maxErrands  = 4096
	errandPause = 5 * time.Second
	// lastErrand is how long before its end an errand is tried for the last time, whatever
	// is left of its pause.
	lastErrand = 500 * time.Millisecond
	// minorityTime is for how long an errand goes on for a minority of a quorum, once
	// the others have answered: without them nobody is kept out. Then they are told as all is that is due.
	minorityTime = time.Second
)

// errand begins e, unless the client is closed or has too many.
func (c *Client) errand(e *errand) {
	e.client, e.job.task = c, e
	if !c.dog.count(e, 1) || !c.dog.add(&e.job, now(), 0) {
		e.done()
		e.forgotten()
	}
}

// count changes the number of errands that are bounded. It returns false if there are too many.
func (w *watchdog) count(e *errand, by int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.held {
		return true
	}
	if by > 0 && w.underway >= maxErrands {
		return false
	}
	w.underway += by
	return true
}

func (e *errand) due(now moment) need {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.asked && !now.at.Before(e.until) {
		e.end()
		return need{}
	}
	e.client.dog.move(&e.job, now.add(time.Minute), 0)
	if e.asked {
		return need{} // its reply says how to go on
	}
	e.asked = true
	return need{DefaultAttemptTimeout, true, uint8(e.client.deployment.shard(e.call.key()))}
}

func (e *errand) begin(moment, time.Duration) (call, bool) { return e.call, true }

func (e *errand) reply(_, now moment, v driver.Value, err error) {
	err = errandReply(e.call, v, err)
	e.mu.Lock()
	defer e.mu.Unlock()
	next := now.at.Add(min(10*time.Millisecond<<min(e.tries, 10), errandPause))
	if limit := now.at.Add(minorityTime); mostDone(err) && limit.Before(e.until) {
		e.until = limit
	}
	if last := e.until.Add(-lastErrand); next.After(last) && last.After(now.at) {
		next = last
	}
	if err == nil || noConnection(err) || next.After(e.until) {
		switch e.end(); {
		case mostDone(err):
			e.client.quorum.oweRest(e.call, err)
		case err != nil:
			e.forgotten()
		}
		return
	}
	e.asked = false
	e.tries++
	e.client.dog.move(&e.job, moment{next, now.asleep}, 0)
}

// errandReply reads the reply of an errand, whose script says by a number that it is done. A
// command of the server itself is done with any answer: SET NX gives none where the key is there.
func errandReply(c call, v driver.Value, err error) error {
	if _, ok := v.(int64); err == nil && !ok && c.script != nil {
		return oddReply("an errand", v)
	}
	return err
}

func (e *errand) end() {
	e.client.dog.move(&e.job, moment{}, 0)
	e.client.dog.count(e, -1)
	e.done()
}

// forgotten notes that e is over although its request may do something.
func (e *errand) forgotten() {
	if e.frees {
		e.client.missed(e.name, e.until)
	}
}
