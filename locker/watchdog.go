package locker

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// batchSize is how many requests share a pipeline at most.
const batchSize = 64

// A watchdog renews the leases of one client, ends those whose deadline passes, and
// runs cleanups: releases that must get through after their caller has gone. One
// goroutine watches the times of all jobs and never does I/O, so that no server can
// delay the end of a lease; a few senders make the requests in batches.
type watchdog struct {
	deployment deployment
	ctx        context.Context
	stop       context.CancelFunc
	wg         sync.WaitGroup

	mu      sync.Mutex
	epoch   moment // moves back by what the machine sleeps, so that all times come earlier by that
	jobs    schedule
	firing  []*job        // taken out of the schedule, and told that their time has come
	wake    chan struct{} // the earliest time has changed
	wakeAt  time.Duration // when the watching goroutine will look next, since epoch; 0 while it looks
	asked   time.Duration // the time of the job for which it was last woken, since epoch; that may be over
	running bool
	closed  bool
	late    []*job // put in since, for Close
	over    bool   // nor does Close take any more
	lanes   [2]lane
	relief  *time.Timer // for what a batch in the prompt lane has left there; nil at first
	states  [shards]shardState

	cleanups int // those that maxCleanups bounds
}

// A job is a request that is made again and again at its own times.
type job struct {
	task
	at             time.Duration // since the watchdog's epoch
	before, behind *job          // in its bucket of the schedule
	place          int32         // in the schedule's heap, from 1, or where it is else
	early          uint32        // how much sooner it may be looked at, µs
	need           need          // while it waits for a sender
}

// A task is what a job is about. None of its methods may block. due and reply say
// when to look again by calling move themselves, under the lock of what they went
// by: then no time that is out of date can come after one that is newer.
type task interface {
	// due is called when the job's time has come. It says what request is to
	// be made, if any.
	due(now moment) need
	// begin is called when the request is about to be sent. It gives the call,
	// for which it is given patience to be answered; ok is false if it is not
	// wanted any more.
	begin(now moment, patience time.Duration) (c call, ok bool)
	// reply gives the outcome, which is known now, of the request sent at sent.
	reply(sent, now moment, v driver.Value, err error)
}

func newWatchdog(d deployment) *watchdog {
	ctx, stop := context.WithCancel(context.Background())
	return &watchdog{deployment: d, ctx: ctx, stop: stop, epoch: now(), wake: make(chan struct{}, 1)}
}

// add puts a job in, to be looked at for the first time at at, or early before it. It
// returns false if the watchdog is closed.
func (w *watchdog) add(j *job, at moment, early time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	w.put(j, at, early)
	if !w.running {
		w.running = true
		w.wg.Go(w.watch)
	}
	return true
}

// addLate keeps a job for which the watchdog was closed too early. It returns false if nobody comes
// for it any more.
func (w *watchdog) addLate(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.late = append(w.late, j)
	}
	return !w.over
}

// closeLate returns the jobs that were put in since close.
func (w *watchdog) closeLate() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	return w.late
}

// remove ends a job. A request of it may still be in flight.
func (w *watchdog) remove(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(j)
}

func (w *watchdog) end(j *job) {
	w.jobs.remove(j)
	j.place = jobOver
}

// move looks at the job at another time, or early before it, if others are looked at
// then; a zero time ends it.
func (w *watchdog) move(j *job, at moment, early time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(j, at, early)
}

// put files j under its next time; a zero time ends it. Whoever gives the time may not know yet of
// a suspension after which the epoch has moved; without asOf the time would be taken for a later
// one. It needs w.mu.
func (w *watchdog) put(j *job, at moment, early time.Duration) {
	switch {
	case j.place == jobOver:
		return
	case at.at.IsZero():
		w.end(j)
		return
	}
	since := at.asOf(w.epoch).at.Sub(w.epoch.at)
	j.early = uint32(early.Microseconds())
	w.jobs.put(j, since)
	if since < w.wakeAt {
		w.wakeAt, w.asked = 0, since // it is on its way
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

const (
	// idleWake is when the goroutine looks again if there is nothing to watch: never.
	idleWake = time.Duration(math.MaxInt64 / 2)
	// maxDue bounds how many jobs are looked at before the goroutine looks whether
	// another has become due, so that however many are due at once, the end of a lease
	// is in time.
	maxDue = 16 * batchSize
)

func (w *watchdog) watch() {
	timer := time.NewTimer(idleWake)
	defer timer.Stop()
	due, wanted := make([]*job, 0, 2*batchSize), make([]*job, 0, 2*batchSize)
	for {
		due = w.takeDue(due[:0])
		if len(due) > 0 {
			wanted = fire(due, wanted[:0])
			w.enqueue(wanted)
			continue
		}
		w.mu.Lock()
		now, at := time.Since(w.epoch.at), idleWake
		limit := now + suspended.unnoticed()
		if j := w.jobs.first(); j != nil {
			at = min(j.at, limit)
		}
		if w.asked > now {
			// That job may be over already. Where locks are held for a short time only, it
			// is nearly always, and the next one would have to wake this goroutine again.
			w.asked = min(w.asked, limit)
			at = min(at, w.asked)
		}
		if at <= now { // it has come since takeDue: there is nothing to sleep for
			w.mu.Unlock()
			continue
		}
		w.wakeAt = at
		w.mu.Unlock()
		timer.Reset(max(at-time.Since(w.epoch.at), soonest))
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

// takeDue takes out the jobs whose time has come. To these it adds some whose time will
// come soon, as many as find room in the request that is made anyway: then no goroutine
// has to be woken for each of many jobs.
func (w *watchdog) takeDue(due []*job) []*job {
	present := now()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wakeAt = 0
	w.epoch = w.epoch.asOf(present)
	now, fill := time.Since(w.epoch.at), w.fill()
	for len(due) < maxDue {
		j := w.jobs.first()
		if j == nil || j.at > now && (len(due)%fill == 0 || j.at-time.Duration(j.early)*time.Microsecond > now) {
			break
		}
		w.jobs.remove(j)
		due = append(due, j)
	}
	if len(due) == 0 {
		w.jobs.passed(now)
	}
	w.firing = due
	return due
}

// fire tells the jobs that their time has come, and appends those that want a request.
func fire(due, wanted []*job) []*job {
	now := now()
	for _, j := range due {
		if need := j.due(now); need.patience > 0 {
			j.need = need
			wanted = append(wanted, j)
		}
	}
	return wanted
}

// close ends everything and returns the jobs that were not over.
func (w *watchdog) close() []*job {
	w.mu.Lock()
	w.closed = true
	if w.relief != nil {
		w.relief.Stop()
	}
	w.mu.Unlock()
	w.stop()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs := w.jobs.clear()
	for _, j := range jobs {
		j.place = jobOver
	}
	return jobs
}
