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

// shards is the number of ranges of slots into which a Cluster is divided: so many that
// most ranges lie on one node. Any other deployment is shard 0 as a whole.
const shards = 64

// kind tells which requests for a part of the deployment may share a batch, because the batch
// ends for all at once: those with about the same patience.
func (n need) kind() int { return bits.Len64(uint64(n.patience / (20 * time.Millisecond))) }

// A lane has jobs and the senders that serve them. There are two lanes, so that
// requests that hang, and so are tried again and again, cannot hold up those that have
// no reason to hang. A job that failed before, or that has to do with a part of the
// deployment that did not answer last time, takes the slow lane.
//
// Each lane has a queue for each part of the deployment, so that within a lane, too, a
// part that hangs holds up no other: one renewal that has failed is no reason to stand
// behind thousands, and when a node dies, the first jobs to notice are of dozens of
// parts.
type lane struct {
	queues  []*shardQueue // by shard
	senders int
	turns   int
	busy    [len(hungSenders)]int // senders that serve queues, by how these had hung
	further int                   // of the batches under way, those that are not the first of their queue
}

// A shardQueue has jobs in the order in which they came.
type shardQueue struct {
	jobs     []*job
	turn     int // the last one that it had
	underway int // batches
}

// A shardState is what the last batches say about a part of the deployment.
type shardState struct {
	suspect bool      // it did not answer the last one
	hung    uint8     // how many in a row kept a sender for long, up to hungOften
	since   time.Time // when the last of these ended
}

const (
	promptLane = iota
	slowLane
)

// maxSenders bounds the batches in flight in each lane. A deployment that answers or
// hangs as a whole is not faster with more than a few, so a batch is larger there
// instead where senders do not keep up.
var maxSenders = map[bool][2]int{true: {promptLane: shards + maxFurther, slowLane: 8}, false: {promptLane: 4, slowLane: 4}}

// maxFurther is how many batches of the prompt lane may be under way for parts of a Cluster,
// or for a quorum, that have one under way already. The first batch of a part need not wait
// for others.
const maxFurther = 15

const (
	// hungTime is how long a batch without any reply is under way before it counts as hung. One
	// that fails sooner, however often, keeps no sender from the others.
	hungTime = 100 * time.Millisecond
	// hungOften is the number of times beyond which more make no difference.
	hungOften = 2
)

// hungSenders bounds how many senders of the slow lane serve the parts of a Cluster that did not
// hang last, that hung once, and that hung more often. A dead node may have dozens of parts. They
// leave a sender to the parts of a node that is well, and a part that was not well only for a
// moment does not queue with them. None is without senders for good.
var hungSenders = [...]int{0: 7, 1: 4, hungOften: 3}

// maxBatch is how many jobs share a request at most. The server serves nobody else
// meanwhile, so it should not be more.
func (w *watchdog) maxBatch() int {
	if w.deployment.sharded() {
		return batchSize
	}
	return 4 * batchSize
}

// fill is how many jobs are given to the lanes at once if some may be early. Much of
// the work of a renewal is to wake up for it, so it pays to wake up for several
// batches.
func (w *watchdog) fill() int {
	if w.deployment.sharded() {
		return batchSize
	}
	return 16 * batchSize
}

// enqueue gives jobs to the senders.
func (w *watchdog) enqueue(jobs []*job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	for _, j := range jobs {
		i := promptLane
		if j.need.slow || w.states[j.need.shard].suspect {
			i = slowLane
		}
		w.lanes[i].put(j)
	}
	for i := range w.lanes {
		w.staff(i)
	}
}

func (l *lane) put(j *job) {
	for len(l.queues) <= int(j.need.shard) {
		l.queues = append(l.queues, &shardQueue{})
	}
	q := l.queues[j.need.shard]
	q.jobs = append(q.jobs, j)
}

// next is the queue whose turn it is, and how its part of the deployment has hung, of which
// the prompt lane takes no note. The queue is nil if no job can be served. Queues that have
// hung least come first, and of these the one that has waited longest. It needs w.mu.
func (w *watchdog) next(i int) (next *shardQueue, hung uint8) {
	l, sharded := &w.lanes[i], w.deployment.sharded()
	for n, q := range l.queues {
		if len(q.jobs) == 0 {
			continue
		}
		h := uint8(0)
		if i == slowLane {
			h = w.states[n].hung
		}
		enough := i == slowLane && l.busy[h] >= hungSenders[h] || i == promptLane && q.underway > 0 && l.further >= maxFurther
		if sharded && enough {
			continue // one of these senders will come for it
		}
		if next == nil || h < hung || h == hung && q.turn < next.turn {
			next, hung = q, h
		}
	}
	return next, hung
}

// staff gives a lane that has jobs one more sender, if it may have more. It needs w.mu.
func (w *watchdog) staff(i int) {
	if q, _ := w.next(i); q == nil {
		return
	}
	if l := &w.lanes[i]; l.senders < maxSenders[w.deployment.sharded()][i] {
		l.senders++
		w.wg.Go(func() { w.serve(i) })
	}
}

// relieve has another sender begin with what a batch leaves, as the batch may hang: at
// once where what is left may be for another server, and otherwise when the batch takes
// long, so that others whom the server serves need not wait for several batches. It
// needs w.mu.
func (w *watchdog) relieve(i int) {
	switch {
	case i == slowLane || w.deployment.sharded():
		w.staff(i)
	case len(w.lanes[i].queues[0].jobs) == 0:
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
	w.mu.Lock()
	for {
		q, hung := w.next(i)
		if q == nil || w.closed {
			l.senders--
			w.mu.Unlock()
			return
		}
		batch := q.take(w.maxBatch())
		l.begin(q, hung)
		w.relieve(i)
		w.mu.Unlock()
		w.send(batch)
		w.mu.Lock()
		l.end(q, hung)
	}
}

// begin and end are told of each batch of q.
func (l *lane) begin(q *shardQueue, hung uint8) {
	l.turns++
	q.turn = l.turns
	l.busy[hung]++
	if q.underway++; q.underway > 1 {
		l.further++
	}
}

func (l *lane) end(q *shardQueue, hung uint8) {
	l.busy[hung]--
	if q.underway--; q.underway > 0 {
		l.further--
	}
}

// take removes the jobs of the next batch: the first, and those of its kind not
// far behind it.
func (q *shardQueue) take(most int) []*job {
	kind := q.jobs[0].need.kind()
	n := min(len(q.jobs), 4*most)
	batch, left := make([]*job, 0, min(n, most)), []*job(nil)
	for _, j := range q.jobs[:n] {
		if len(batch) < most && j.need.kind() == kind {
			batch = append(batch, j)
		} else {
			left = append(left, j)
		}
	}
	// What is left moves up to where the rest of the queue begins.
	start := n - len(left)
	copy(q.jobs[start:n], left)
	clear(q.jobs[:start])
	q.jobs = q.jobs[start:]
	if len(q.jobs) == 0 {
		q.jobs = nil
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
	answered, silent, vain := now(), true, true
	for i, r := range results {
		vain = vain && r.Err != nil && driver.OutcomeOf(r.Err) != driver.OutcomeReplied
		silent = silent && vain && driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
		sent[i].reply(sending, answered, r.Value, late(r.Err))
	}
	w.mu.Lock()
	w.states[shard].note(sending.at, answered.at, silent, vain && answered.at.Sub(sending.at) >= hungTime)
	w.mu.Unlock()
}

func (s *shardState) note(begun, ended time.Time, silent, hung bool) {
	s.suspect = silent || hung
	switch {
	case !hung:
		s.hung = 0
	case !begun.Before(s.since): // else it hung together with the one that was counted
		s.hung, s.since = min(s.hung+1, hungOften), ended
	}
}
