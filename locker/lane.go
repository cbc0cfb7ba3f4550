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
	shard    uint8         // the part of the deployment that it is for
}

// shards is into how many ranges of slots a Cluster is divided: so many that most
// lie on one node. Another deployment is shard 0 as a whole.
const shards = 64

// A kind tells which requests may share a batch, because the batch ends for all at
// once: those with about the same patience for the same part of the deployment.
type kind struct {
	patience int
	shard    uint8
}

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

// maxSenders bounds the batches in flight in each lane. A deployment that answers or
// hangs as a whole is not faster for more than a few, so that there a batch is larger
// instead where senders do not keep up.
var maxSenders = map[bool][2]int{true: {promptLane: 16, slowLane: 8}, false: {promptLane: 4, slowLane: 4}}

// maxBatch is how many jobs share a request at most. The server serves nobody else
// meanwhile, so that it should not be more.
func (w *watchdog) maxBatch() int {
	if w.deployment.sharded() {
		return batchSize
	}
	return 4 * batchSize
}

// fill is how many are given to the lanes at once if some may be early. Of the work of
// a renewal much is to wake up for it, so that it pays to wake up for several batches.
func (w *watchdog) fill() int {
	if w.deployment.sharded() {
		return batchSize
	}
	return 16 * batchSize
}

// queue gives jobs to the senders.
func (w *watchdog) queue(jobs []*job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for _, j := range jobs {
		i := promptLane
		if j.need.slow || w.suspect[j.need.shard] {
			i = slowLane
		}
		w.lanes[i].jobs = append(w.lanes[i].jobs, j)
	}
	for i := range w.lanes {
		w.staff(i)
	}
}

// staff gives a lane that has jobs one more sender, if it may have more. It needs w.mu.
func (w *watchdog) staff(i int) {
	if l := &w.lanes[i]; len(l.jobs) > 0 && l.senders < maxSenders[w.deployment.sharded()][i] {
		l.senders++
		w.wg.Go(func() { w.serve(i) })
	}
}

// relieve has another sender begin with what a batch leaves, as the batch may hang: at
// once where that may be for another server, and else when the batch takes long, so that
// those whom the server serves besides need not wait for several. It needs w.mu.
func (w *watchdog) relieve(i int) {
	switch {
	case i == slowLane || w.deployment.sharded():
		w.staff(i)
	case len(w.lanes[i].jobs) == 0:
	case w.relief == nil:
		w.relief = time.AfterFunc(soon, w.help)
	default:
		w.relief.Reset(soon)
	}
}

func (w *watchdog) help() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closed {
		w.staff(promptLane)
	}
}

// serve makes requests until none is wanted.
func (w *watchdog) serve(i int) {
	l := &w.lanes[i]
	for {
		w.mu.Lock()
		batch := l.take(w.maxBatch())
		if len(batch) == 0 || w.closed {
			l.senders--
			w.mu.Unlock()
			return
		}
		w.relieve(i)
		w.mu.Unlock()
		w.send(batch)
	}
}

// take removes the jobs of the next batch: the first, and those of its kind not
// far behind it.
func (l *lane) take(most int) []*job {
	if len(l.jobs) == 0 {
		return nil
	}
	kind := l.jobs[0].need.kind()
	n := min(len(l.jobs), 4*most)
	batch, left := make([]*job, 0, min(n, most)), []*job(nil)
	for _, j := range l.jobs[:n] {
		if len(batch) < most && j.need.kind() == kind {
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
	patience, shard := batch[0].need.patience, batch[0].need.shard
	for _, j := range batch {
		patience = min(patience, j.need.patience)
	}
	sending := now()
	calls := make([]call, 0, len(batch))
	sent := batch[:0]
	for _, j := range batch {
		if c, ok := j.begin(sending, patience); ok {
			calls, sent = append(calls, c), append(sent, j)
		}
	}
	if len(calls) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	results := w.deployment.runBatch(ctx, calls)
	answered, silent := now(), true
	for i, r := range results {
		silent = silent && r.Err != nil && driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
		sent[i].reply(sending, answered, r.Value, late(r.Err))
	}
	w.mu.Lock()
	w.suspect[shard] = silent
	w.mu.Unlock()
}
