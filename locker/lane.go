package locker

import (
	"context"
	"math/bits"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A need is a request that a job wants to have made. The zero need is none.
type need struct {
	patience time.Duration // how long its reply may take
	slow     bool          // it failed before, or nobody waits for it
	shard    int           // the part of the deployment that it is for
}

// shards is into how many ranges of slots a Cluster is divided: so many that most
// lie on one node. Another deployment is shard 0 as a whole.
const shards = 64

// A kind tells which requests may share a batch, because the batch ends for all at
// once: those with about the same patience for the same part of the deployment.
type kind struct{ patience, shard int }

func (n need) kind() kind {
	return kind{bits.Len64(uint64(n.patience / (20 * time.Millisecond))), n.shard}
}

// A lane is a queue of jobs and the senders that serve it. There are two, so that
// requests that hang, and so are tried again and again, cannot hold up those that
// have no reason to: who failed before, and who has to do with a part of the
// deployment that did not answer last time, takes the slow one.
type lane struct {
	jobs    []*job
	senders int
}

const (
	promptLane = iota
	slowLane
)

// maxSenders bounds the batches in flight in each lane.
var maxSenders = [2]int{promptLane: 16, slowLane: 8}

func (w *watchdog) queue(j *job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	i := promptLane
	if j.need.slow || w.suspect[j.need.shard] {
		i = slowLane
	}
	l := &w.lanes[i]
	l.jobs = append(l.jobs, j)
	if l.senders < maxSenders[i] {
		l.senders++
		w.wg.Go(func() { w.serve(l) })
	}
}

// serve makes requests until none is wanted.
func (w *watchdog) serve(l *lane) {
	for {
		w.mu.Lock()
		batch := l.take()
		if len(batch) == 0 || w.closed {
			l.senders--
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		w.send(batch)
	}
}

// take removes the jobs of the next batch: the first, and those of its kind not
// far behind it.
func (l *lane) take() []*job {
	const window = 4 * batchSize
	if len(l.jobs) == 0 {
		return nil
	}
	kind := l.jobs[0].need.kind()
	var batch, left []*job
	n := min(len(l.jobs), window)
	for _, j := range l.jobs[:n] {
		if len(batch) < batchSize && j.need.kind() == kind {
			batch = append(batch, j)
		} else {
			left = append(left, j)
		}
	}
	// What is left moves up to where the rest of the queue begins.
	start := n - len(left)
	copy(l.jobs[start:n], left)
	clear(l.jobs[:start])
	l.jobs = l.jobs[start:]
	if len(l.jobs) == 0 {
		l.jobs = nil
	}
	return batch
}

func (w *watchdog) send(batch []*job) {
	patience := batch[0].need.patience
	for _, j := range batch {
		patience = min(patience, j.need.patience)
	}
	sending := now()
	calls := make([]call, 0, len(batch))
	sent := batch[:0]
	for _, j := range batch {
		if c, ok := j.begin(sending.at, patience); ok {
			calls, sent = append(calls, c), append(sent, j)
		}
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	silent := true
	for i, r := range w.deployment.runBatch(ctx, calls) {
		silent = silent && r.Err != nil && driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
		sent[i].reply(sending, r.Value, r.Err)
	}
	w.mu.Lock()
	w.suspect[sent[0].need.shard] = silent
	w.mu.Unlock()
}
