package locker

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// renewalTime is a third of the TTL after the request that armed it, spread over
// the last tenth of that, so that leases taken together are not renewed together.
func renewalTime(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(time.Duration(float64(ttl) / 3 * (1 - rand.Float64()/10)))
}

// retryPause is how long a failed request waits for the next try.
func retryPause(ttl time.Duration) time.Duration {
	pause := min(ttl/20, time.Second)
	return pause/2 + rand.N(pause/2)
}

// renewalTTL is what the next renewal asks for: as much as any of the handles that
// want to be renewed, or 0 if none does. It needs t.mu.
func (t *tenure) renewalTTL() time.Duration {
	var ttl time.Duration
	for l := t.held; l != nil; l = l.next {
		if l.mutex.cfg.renew {
			ttl = max(ttl, l.mutex.cfg.ttl)
		}
	}
	return ttl
}

// due implements task: the time of a renewal, or of an end, has come.
func (t *tenure) due(now time.Time) (need, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.check(suspended.recent()); t.held == nil {
		return need{}, time.Time{}
	}
	var renewal need
	if t.renewalTTL() > 0 && !t.renewAt.IsZero() && !now.Before(t.renewAt) {
		t.renewAt = time.Time{}
		// Half of what is left, so that a reply that is lost can be made up for.
		patience := min(t.mutex.attempt, t.lastDeadline().Sub(now)/2)
		renewal = need{max(patience, 20*time.Millisecond), t.lastErr != nil, t.client.link.shard(t.mutex.keys.record)}
	}
	return renewal, t.next()
}

// next is when the watchdog has to look at the tenure again. It needs t.mu.
func (t *tenure) next() time.Time {
	at := t.term.deadline
	for l := t.held; l != nil; l = l.next {
		if end := l.deadline(); end.Before(at) {
			at = end
		}
	}
	if t.renewalTTL() > 0 && !t.renewAt.IsZero() && t.renewAt.Before(at) {
		at = t.renewAt
	}
	return at
}

// lastDeadline is when the last handle ends unless the tenure is renewed. It needs t.mu.
func (t *tenure) lastDeadline() time.Time {
	var last time.Time
	for l := t.held; l != nil; l = l.next {
		if end := l.deadline(); end.After(last) {
			last = end
		}
	}
	return last
}

// begin implements task.
func (t *tenure) begin(now time.Time, patience time.Duration) (call, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check(suspended.recent())
	ttl := t.renewalTTL()
	if ttl == 0 {
		t.renewAt = now // for a handle that wants it again
		return call{}, false
	}
	t.renewal, t.asked = make(chan struct{}), ttl
	t.mayArm(patience, ttl)
	return renewCall(&t.mutex.keys, t.id, ttl, t.token != 0), true
}

// reply implements task. An error is no loss: the renewal is tried again until the
// deadline.
func (t *tenure) reply(sent moment, v driver.Value, err error) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.renewal)
	t.renewal = nil
	if t.held == nil {
		return time.Time{}
	}
	if err == nil {
		err = heldReply(v)
	}
	switch {
	case err == nil:
		t.armed(sent, t.asked)
		t.renewAt = renewalTime(sent.at, t.asked)
	case errors.Is(err, ErrNotHeld):
		t.lose(err)
	default:
		t.lastErr = err
		t.renewAt = time.Now().Add(retryPause(t.asked))
	}
	if t.check(suspended.recent()); t.held == nil {
		return time.Time{}
	}
	return t.next()
}
