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
			ttl = max(ttl, l.mutex.ttl)
		}
	}
	return ttl
}

// due implements task: the time of a renewal, or of an end, has come.
func (t *tenure) due(now time.Time) (renewal need) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check(suspended.recent())
	if t.renewalTTL() > 0 && !t.renewAt.IsZero() && !now.Before(t.renewAt) {
		t.renewAt = time.Time{}
		// Half of what is left, so that a reply that is lost can be made up for.
		patience := min(t.mutex.attempt, t.lastDeadline().Sub(now)/2)
		renewal = need{max(patience, 20*time.Millisecond), t.lastErr != nil, t.client.deployment.shard(t.mutex.keys.record)}
	}
	t.plan()
	return renewal
}

// plan tells the watchdog when to look at the tenure again. It needs t.mu.
func (t *tenure) plan() { t.client.dog.move(&t.job, t.next()) }

// next is when that is, zero once the tenure is over. It needs t.mu.
func (t *tenure) next() time.Time {
	if t.held == nil {
		return time.Time{}
	}
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
	return t.renewCall(ttl), true
}

func (t *tenure) renewCall(ttl time.Duration) call {
	var agreed Token
	if t.mutex.client.quorum != nil {
		agreed = t.token
	}
	return renewCall(t.mutex, t.id, ttl, t.mutex.cfg.fenced || t.token != 0, agreed)
}

// reply implements task. An error is no loss: the renewal is tried again until the
// deadline.
func (t *tenure) reply(sent moment, v driver.Value, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.renewal)
	t.renewal = nil
	if err == nil {
		err = heldReply(v)
	}
	switch {
	case t.held == nil:
	case err == nil:
		t.armed(sent, t.asked)
		t.renewAt = renewalTime(sent.at, t.asked)
	case errors.Is(err, ErrNotHeld):
		t.lose(err)
	default:
		t.lastErr = err
		t.renewAt = time.Now().Add(retryPause(t.asked))
	}
	t.check(suspended.recent())
	t.plan()
}
