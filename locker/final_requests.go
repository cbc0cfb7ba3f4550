package locker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A finalRequest is what Close asks last for a job: for a tenure, or for a cleanup that is left.
type finalRequest struct {
	call   call
	tenure *tenure // nil for a cleanup
	name   string
	until  time.Time
	frees  bool // without it the lock may stay taken
	most   bool // most of the nodes of a quorum have done it, so that it is settled
	unsure bool // the request was made and not answered
}

// optionalTime bounds how long Close tries to leave queues, and the like, where the server
// does not answer.
const optionalTime = time.Second

// finish ends all leases, and then makes the last request of every job. Those that may free
// a lock have as long as within.
func (c *Client) finish(jobs []*job, within time.Duration) {
	var required, optional []finalRequest
	for _, j := range jobs {
		switch t := j.task.(type) {
		case *tenure:
			if call, lapse, ok := t.startClose(); ok {
				required = append(required, finalRequest{call: call, tenure: t, name: t.mutex.name, until: lapse, frees: true})
			}
		case *cleanup:
			if f := (finalRequest{call: t.call, name: t.name, until: t.until, frees: t.frees, most: t.most}); f.frees {
				required = append(required, f)
			} else {
				optional = append(optional, f)
			}
		}
	}
	// At once, so that a part of the deployment that hangs delays no other.
	var wg sync.WaitGroup
	begin := func(all []finalRequest, within time.Duration) {
		for _, part := range c.byShard(all) {
			for batch := range slices.Chunk(part, batchSize) {
				wg.Go(func() { c.sendFinal(within, batch) })
			}
		}
	}
	begin(required, within)
	begin(optional, optionalTime)
	wg.Wait()
}

// byShard sorts requests by the parts of the deployment.
func (c *Client) byShard(all []finalRequest) map[int][]finalRequest {
	parts := map[int][]finalRequest{}
	for _, f := range all {
		shard := c.deployment.shard(f.call.key())
		parts[shard] = append(parts[shard], f)
	}
	return parts
}

// sendFinal makes the requests until all are answered or the time is over. None keeps the others, or
// the next try, waiting for longer than a request of Unlock may take.
func (c *Client) sendFinal(within time.Duration, batch []finalRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var abandoned []finalRequest
	for tries, pause := 1, 10*time.Millisecond; ; tries, pause = tries+1, pause*2 {
		calls := make([]call, len(batch))
		for i, f := range batch {
			calls[i] = f.call
		}
		var left []finalRequest
		request, done := context.WithTimeout(ctx, longestAttempt(batch))
		results := c.deployment.runBatch(request, calls)
		done()
		for i, r := range results {
			f := batch[i]
			switch {
			case f.settledBy(r):
			case tries > 1 && noConnection(r.Err): // at the first try it may be the connection to a single node
				abandoned = append(abandoned, f)
			default:
				f.unsure = f.unsure || driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
				left = append(left, f)
			}
		}
		if batch = left; len(batch) == 0 {
			break
		}
		if await(nil, ctx.Done(), pause) {
			break
		}
	}
	for _, f := range append(abandoned, batch...) {
		if f.tenure != nil {
			f.tenure.endRelease(nil, false)
		}
		if f.frees {
			c.missed(f.name, f.until)
		}
	}
}

// longestAttempt is how long the one of these requests that has the most time may take.
func longestAttempt(batch []finalRequest) time.Duration {
	longest := DefaultAttemptTimeout
	for _, f := range batch {
		if f.tenure != nil {
			longest = max(longest, f.tenure.mutex.attempt())
		}
	}
	return longest
}

// settledBy tells whether r answers f, so that the request need not be made again, and notes the
// outcome of a release.
func (f finalRequest) settledBy(r driver.Result) bool {
	if f.tenure == nil {
		err := cleanupReply(f.call, r.Value, r.Err)
		return err == nil || f.most || mostDone(err)
	}
	err := r.Err
	if err == nil {
		err = heldReply(r.Value)
	}
	outcome, known := f.tenure.releaseOutcome(err, f.unsure)
	if known {
		f.tenure.endRelease(outcome, true)
	}
	return known
}
