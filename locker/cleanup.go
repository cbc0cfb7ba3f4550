package locker

import (
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A cleanup is a request that must get through although nobody waits for it: a
// release, or the end of an attempt. It is repeated until the server answers, or
// until what it would clean up has lapsed by itself.
type cleanup struct {
	job    job
	client *Client
	name   string // of the lock, for reports
	call   call
	until  time.Time
	frees  bool   // without it a lock may stay taken
	held   bool   // it is about a lease that was acquired
	done   func() // called when it is over

	mu    sync.Mutex
	tries int
	asked bool
	err   error // of the last request
	most  bool  // most of the nodes of a quorum have done it, at some time
}

const (
	// maxCleanups bounds what a client remembers to clean up after attempts while its
	// server does not answer. What is beyond that lapses with its TTL. How many leases
	// there are to be released is bounded by the leases themselves.
	maxCleanups  = 4096
	cleanupPause = 5 * time.Second
	// lastCleanup is how long before its end a cleanup is tried for the last time, whatever
	// is left of its pause.
	lastCleanup = 500 * time.Millisecond
	// minorityTime is for how long a cleanup goes on for a minority of a quorum, once
	// the others have answered: without them nobody is kept out. After that these nodes are told as
	// they are of all else that is due.
	minorityTime = time.Second
)

// cleanUp begins cl, unless the client is closed or has too many.
func (c *Client) cleanUp(cl *cleanup) {
	cl.client, cl.job.task = c, cl
	if !c.watchdog.countCleanup(cl, 1) || !c.watchdog.add(&cl.job, now(), 0) && !c.watchdog.addLate(&cl.job) {
		cl.done()
		cl.forgotten()
	}
}

// countCleanup changes the number of cleanups that are bounded. It returns false if there are too many.
func (w *watchdog) countCleanup(cl *cleanup, by int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if cl.held {
		return true
	}
	if by > 0 && w.cleanups >= maxCleanups {
		return false
	}
	w.cleanups += by
	return true
}

func (cl *cleanup) due(now moment) need {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if !cl.asked && !now.at.Before(cl.until) {
		if cl.end(); cl.most {
			cl.client.quorum.oweRest(cl.call, cl.err)
		}
		return need{}
	}
	cl.client.watchdog.move(&cl.job, now.add(time.Minute), 0)
	if cl.asked {
		return need{} // its reply says how to go on
	}
	cl.asked = true
	return need{patience: DefaultAttemptTimeout, slow: true, shard: uint8(cl.client.deployment.shard(cl.call.key()))}
}

func (cl *cleanup) begin(moment, time.Duration) (call, bool) { return cl.call, true }

func (cl *cleanup) reply(_, now moment, v driver.Value, err error) {
	err = cleanupReply(cl.call, v, err)
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.err = err
	next := now.at.Add(min(10*time.Millisecond<<min(cl.tries, 10), cleanupPause))
	if limit := now.at.Add(minorityTime); mostDone(err) && limit.Before(cl.until) {
		cl.until = limit
	}
	cl.most = cl.most || mostDone(err)
	if last := cl.until.Add(-lastCleanup); next.After(last) && last.After(now.at) {
		next = last
	}
	if err == nil || noConnection(err) || next.After(cl.until) {
		switch cl.end(); {
		case cl.most: // and the others, where they fail to do it once more, are told
			cl.client.quorum.oweRest(cl.call, err)
		case err != nil:
			cl.forgotten()
		}
		return
	}
	cl.asked = false
	cl.tries++
	cl.client.watchdog.move(&cl.job, moment{next, now.asleep}, 0)
}

// cleanupReply reads the reply of a cleanup, whose script says by a number that it is done. A
// command of the server itself is done whatever the answer: SET NX gives none where the key is
// there.
func cleanupReply(c call, v driver.Value, err error) error {
	if _, ok := v.(int64); err == nil && !ok && c.script != nil {
		return oddReply("a cleanup", v)
	}
	return err
}

func (cl *cleanup) end() {
	cl.client.watchdog.move(&cl.job, moment{}, 0)
	cl.client.watchdog.countCleanup(cl, -1)
	cl.done()
}

// forgotten notes that cl is over although its request may do something.
func (cl *cleanup) forgotten() {
	if cl.frees {
		cl.client.missed(cl.name, cl.until)
	}
}
