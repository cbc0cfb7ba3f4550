package locker

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// batchSize is how many requests share a pipeline at most.
const batchSize = 64

// A watchdog renews the leases of one client, ends those whose deadline passes, and
// runs errands: releases that must get through after their caller has gone. One
// goroutine watches the times of all jobs and never does I/O, so that no server can
// delay the end of a lease; a few senders make the requests in batches.
type watchdog struct {
	deployment deployment
	ctx        context.Context
	stop       context.CancelFunc
	wg         sync.WaitGroup

	mu      sync.Mutex
	jobs    jobHeap
	wake    chan struct{} // the earliest time has changed
	alarm   time.Time     // when the watching goroutine will look next; zero while it looks
	running bool
	closed  bool
	lanes   [2]lane
	suspect [shards]bool // did not answer the last batch

	underway int // errands
}

// A job is a request that is made again and again at its own times.
type job struct {
	task
	at    time.Time
	index int // in the heap, -1 outside
	over  bool
	need  need // while it waits for a sender
}

// A task is what a job is about. None of its methods may block. due and reply say
// when to look again by calling move themselves, under the lock of what they went
// by: then no time that is out of date can come after one that is newer.
type task interface {
	// due is called when the job's time has come. It says what request is to
	// be made, if any.
	due(now time.Time) need
	// begin is called when the request is about to be sent. It gives the call,
	// for which it is given patience to be answered; ok is false if it is not
	// wanted any more.
	begin(now time.Time, patience time.Duration) (c call, ok bool)
	// reply gives the outcome of the request sent at sent.
	reply(sent moment, v driver.Value, err error)
}

func newWatchdog(d deployment) *watchdog {
	ctx, stop := context.WithCancel(context.Background())
	return &watchdog{deployment: d, ctx: ctx, stop: stop, wake: make(chan struct{}, 1)}
}

// add puts a job in. It returns false if the watchdog is closed.
func (w *watchdog) add(j *job, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	j.index = -1
	w.put(j, at)
	if !w.running {
		w.running = true
		w.wg.Go(w.watch)
	}
	return true
}

// remove ends a job. A request of it may still be in flight.
func (w *watchdog) remove(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	j.over = true
	if j.index >= 0 {
		heap.Remove(&w.jobs, j.index)
	}
}

// move looks at the job at another time; a zero time ends it.
func (w *watchdog) move(j *job, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put(j, at)
}

// put files j under its next time; a zero time ends it. It needs w.mu.
func (w *watchdog) put(j *job, at time.Time) {
	switch {
	case j.over:
		return
	case at.IsZero():
		j.over = true
		if j.index >= 0 {
			heap.Remove(&w.jobs, j.index)
		}
		return
	}
	j.at = at
	if j.index >= 0 {
		heap.Fix(&w.jobs, j.index)
	} else {
		heap.Push(&w.jobs, j)
	}
	if !w.alarm.IsZero() && at.Before(w.alarm) {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// idleAlarm is when the goroutine looks again if there is nothing to watch.
const idleAlarm = time.Hour

func (w *watchdog) watch() {
	timer := time.NewTimer(idleAlarm)
	defer timer.Stop()
	var due []*job
	for {
		due = w.takeDue(due[:0])
		if len(due) > 0 {
			w.fire(due)
			continue
		}
		w.mu.Lock()
		w.alarm = time.Now().Add(idleAlarm)
		if len(w.jobs) > 0 {
			w.alarm = w.jobs[0].at
		}
		timer.Reset(time.Until(w.alarm))
		w.mu.Unlock()
		select {
		case <-timer.C:
		case <-w.wake:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *watchdog) takeDue(due []*job) []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alarm = time.Time{}
	now := time.Now()
	for len(w.jobs) > 0 && !w.jobs[0].at.After(now) {
		due = append(due, heap.Pop(&w.jobs).(*job))
	}
	return due
}

func (w *watchdog) fire(due []*job) {
	now := time.Now()
	for _, j := range due {
		if need := j.due(now); need.patience > 0 {
			j.need = need
			w.queue(j)
		}
	}
}

// close ends everything and returns the jobs that were not over.
func (w *watchdog) close() []*job {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.wg.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	jobs := slices.Clone(w.jobs)
	w.jobs = nil
	for _, j := range jobs {
		j.over, j.index = true, -1
	}
	return jobs
}

// A jobHeap has the job with the earliest time first.
type jobHeap []*job

func (h jobHeap) Len() int           { return len(h) }
func (h jobHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h jobHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

// Push and Pop are called by package heap only.
func (h *jobHeap) Push(x any) {
	j := x.(*job)
	j.index = len(*h)
	*h = append(*h, j)
}

func (h *jobHeap) Pop() any {
	old := *h
	j := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	j.index = -1
	return j
}
