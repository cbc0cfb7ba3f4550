package locker

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A farewell is the last request of a job: of a tenure, or of a cleanup.
type farewell struct {
	call   call
	tenure *tenure // nil for a cleanup
	name   string
	until  time.Time
	frees  bool // without it the lock may stay taken
	unsure bool // the request was made and not answered
}

// courtesyTime bounds how long Close tries to leave queues, and the like, where the server
// does not answer.
const courtesyTime = time.Second

// finish ends all leases, and then makes the last request of every job.
func (c *Client) finish(jobs []*job) {
	var last, courtesies []farewell
	for _, j := range jobs {
		switch t := j.task.(type) {
		case *tenure:
			if call, lapse, ok := t.startClose(); ok {
				last = append(last, farewell{call: call, tenure: t, name: t.mutex.name, until: lapse, frees: true})
			}
		case *cleanup:
			if f := (farewell{call: t.call, name: t.name, until: t.until, frees: t.frees}); f.frees {
				last = append(last, f)
			} else {
				courtesies = append(courtesies, f)
			}
		}
	}
	// At once, so that a part of the deployment that hangs delays no other.
	var wg sync.WaitGroup
	begin := func(all []farewell, within time.Duration) {
		for _, part := range c.parts(all) {
			for batch := range slices.Chunk(part, batchSize) {
				wg.Go(func() { c.say(within, batch) })
			}
		}
	}
	begin(last, closeTime)
	begin(courtesies, courtesyTime)
	wg.Wait()
}

// parts sorts what is to be said by the parts of the deployment.
func (c *Client) parts(all []farewell) map[int][]farewell {
	parts := map[int][]farewell{}
	for _, f := range all {
		shard := c.deployment.shard(f.call.key())
		parts[shard] = append(parts[shard], f)
	}
	return parts
}

// say makes the requests until all are answered or the time is over. None keeps the others, or
// the next try, for longer than a request of Unlock may take.
func (c *Client) say(within time.Duration, batch []farewell) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var unheard []farewell
	for tries, pause := 1, 10*time.Millisecond; ; tries, pause = tries+1, pause*2 {
		calls := make([]call, len(batch))
		for i, f := range batch {
			calls[i] = f.call
		}
		var left []farewell
		request, done := context.WithTimeout(ctx, slowest(batch))
		results := c.deployment.runBatch(request, calls)
		done()
		for i, r := range results {
			f := batch[i]
			switch {
			case f.heard(r):
			case tries > 1 && noConnection(r.Err): // the first may have met one node's alone
				unheard = append(unheard, f)
			default:
				f.unsure = f.unsure || driver.OutcomeOf(r.Err) == driver.OutcomeUnknown
				left = append(left, f)
			}
		}
		if batch = left; len(batch) == 0 {
			break
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			timer.Stop()
		}
		break
	}
	for _, f := range append(unheard, batch...) {
		if f.tenure != nil {
			f.tenure.endRelease(nil, false)
		}
		if f.frees {
			c.missed(f.name, f.until)
		}
	}
}

// slowest is how long that of these requests may take that has most time.
func slowest(batch []farewell) time.Duration {
	longest := DefaultAttemptTimeout
	for _, f := range batch {
		if f.tenure != nil {
			longest = max(longest, f.tenure.mutex.attempt())
		}
	}
	return longest
}

// heard tells whether r ends the farewell.
func (f farewell) heard(r driver.Result) bool {
	if f.tenure == nil {
		err := cleanupReply(f.call, r.Value, r.Err)
		return err == nil || mostDone(err)
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
