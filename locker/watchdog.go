package locker

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

const (
	// batchSize is how many renewals share a pipeline.
	batchSize = 64
	// maxSenders bounds the pipelines in flight. A server that hangs holds up
	// that many; deadlines are watched without them.
	maxSenders = 16
)

// A watchdog renews the leases of one client, ends those whose deadline passes, and
// runs errands: releases that must get through after their caller has gone. One
// goroutine watches the times of all jobs and never does I/O, so that no server can
// delay the end of a lease; a few senders make the requests in batches.
type watchdog struct {
	link *link
	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu      sync.Mutex
	jobs    jobHeap
	wake    chan struct{} // the earliest time has changed
	alarm   time.Time     // when the watching goroutine will look next; zero while it looks
	running bool
	closed  bool
	pending [][]*job // batches that wait for a sender
	senders int
}

// A job is a request that is made again and again at its own times.
type job struct {
	task
	at    time.Time
	index int // in the heap, -1 outside
	over  bool
}

// A task is what a job is about. None of its methods may block.
type task interface {
	// due is called when the job's time has come. It says whether a request
	// is to be made and when to look again; a zero time ends the job.
	due(now time.Time) (send bool, next time.Time)
	// begin is called when the request is about to be sent. It gives the call
	// and how long to wait for the reply; ok is false if it is not wanted any more.
	begin(now time.Time) (c call, patience time.Duration, ok bool)
	// reply gives the outcome of the request sent at sent, and says when to look
	// again; a zero time ends the job.
	reply(sent moment, v driver.Value, err error) (next time.Time)
}

func newWatchdog(l *link) *watchdog {
	ctx, stop := context.WithCancel(context.Background())
	return &watchdog{link: l, ctx: ctx, stop: stop, wake: make(chan struct{}, 1)}
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

// move looks at the job at another time.
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
	var batch []*job
	for _, j := range due {
		send, next := j.due(now)
		w.move(j, next)
		if !send {
			continue
		}
		if batch = append(batch, j); len(batch) == batchSize {
			w.dispatch(batch)
			batch = nil
		}
	}
	if len(batch) > 0 {
		w.dispatch(batch)
	}
}

func (w *watchdog) dispatch(batch []*job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.pending = append(w.pending, batch)
	if w.senders < maxSenders {
		w.senders++
		w.wg.Go(w.send)
	}
}

// send makes requests until none is pending.
func (w *watchdog) send() {
	for {
		w.mu.Lock()
		if len(w.pending) == 0 || w.closed {
			w.senders--
			w.mu.Unlock()
			return
		}
		batch := w.pending[0]
		w.pending = w.pending[1:]
		w.mu.Unlock()
		w.request(batch)
	}
}

func (w *watchdog) request(batch []*job) {
	sending := now()
	calls := make([]call, 0, len(batch))
	sent := batch[:0]
	patience := DefaultAttemptTimeout
	for _, j := range batch {
		c, p, ok := j.begin(sending.at)
		if !ok {
			continue
		}
		calls, sent, patience = append(calls, c), append(sent, j), min(patience, p)
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	for i, r := range w.link.runBatch(ctx, calls) {
		next := sent[i].reply(sending, r.Value, r.Err)
		w.move(sent[i], next)
	}
}

// close ends everything and returns the jobs that were not over.
func (w *watchdog) close() []*job {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.stop()
	w.wg.Wait()
	return w.jobs
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
