package locker

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// renewalTime is a third of the TTL after the request that armed it, less up to a tenth
// of that at random, so that leases that are renewed together drift apart.
func renewalTime(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(time.Duration(float64(ttl) / 3 * (1 - rand.Float64()/10)))
}

// firstRenewalTime is for a lease that has just been taken, maybe at once with very many
// others: that takes as much as half off, so that they are spread from the beginning.
func firstRenewalTime(sent time.Time, ttl time.Duration) time.Time {
	return sent.Add(time.Duration(float64(ttl) / 3 * (1 - rand.Float64()/2)))
}

// renewalSlack is how much sooner a renewal may be made, together with others.
func renewalSlack(ttl time.Duration) time.Duration { return min(ttl/100, time.Second) }

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
func (t *tenure) due(now moment) (renewal need) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check(now)
	if t.held != nil {
		t.rest.askAgain(now.at, t.term.leftAt(now))
	}
	if ttl := t.renewalTTL(); ttl > 0 && t.renewAt != 0 && t.renewAt.sub(now.at) <= renewalSlack(ttl) {
		t.renewAt = 0
		// Half of what is left, so that a reply that is lost can be made up for.
		patience := min(t.mutex.attempt(), t.lastDeadline().Sub(now.at)/2)
		shard := t.client.deployment.shard(t.mutex.keys.record)
		renewal = need{patience: max(patience, 20*time.Millisecond), slow: t.lastErr != nil, shard: uint8(shard)}
	}
	t.plan()
	return renewal
}

// plan tells the watchdog when to look at the tenure again. It needs t.mu.
func (t *tenure) plan() {
	at, early := t.next()
	t.client.watchdog.move(&t.job, at, early)
}

// next is when that is, zero once the tenure is over, and how much sooner it may be. It
// needs t.mu.
func (t *tenure) next() (at moment, early time.Duration) {
	if t.held == nil {
		return moment{}, 0
	}
	at = moment{t.term.deadline, t.term.asleep}
	for l := t.held; l != nil; l = l.next {
		if end := l.deadline(); end.Before(at.at) {
			at.at = end
		}
	}
	if again := t.rest.nextAsking(); !again.IsZero() && again.Before(at.at) {
		at.at = again
	}
	if ttl := t.renewalTTL(); ttl > 0 && t.renewAt != 0 && t.renewAt.sub(at.at) < 0 {
		at.at = t.renewAt.time()
		return at, renewalSlack(ttl)
	}
	return at, 0
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
func (t *tenure) begin(now moment, patience time.Duration) (call, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check(now)
	ttl := t.renewalTTL()
	if ttl == 0 {
		t.renewAt = monoTimeOf(now.at) // for a handle that wants it again
		return call{}, false
	}
	t.renewing, t.asked = true, ttl
	t.mayArm(now.at.Add(patience), ttl)
	return t.renewCall(ttl), true
}

// awaitable is closed when nothing that lengthens the tenure is in flight any more; it is nil if
// nothing is. It needs t.mu.
func (t *tenure) awaitable() <-chan struct{} {
	if (t.renewing || t.extending > 0) && t.renewed == nil {
		t.renewed = make(chan struct{})
	}
	return t.renewed
}

// landed closes what awaitable gave, if it is time. It needs t.mu.
func (t *tenure) landed() {
	if t.renewed != nil && !t.renewing && t.extending == 0 {
		close(t.renewed)
		t.renewed = nil
	}
}

func (t *tenure) renewCall(ttl time.Duration) call {
	var agreed Token
	if t.client.quorum != nil {
		agreed = t.token
	}
	return renewCall(t.mutex, t.id, ttl, t.mutex.cfg.fenced || t.token != 0, agreed)
}

// reply implements task. An error is no loss: the renewal is tried again until the
// deadline.
func (t *tenure) reply(sent, now moment, v driver.Value, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.catchUp(now)
	sent = sent.asOf(now)
	t.renewing = false
	t.landed()
	if err == nil {
		err = heldReply(v)
	}
	// Close breaks off what is in flight, which says nothing about the server.
	brokenOff := err != nil && !errors.Is(err, ErrNotHeld) && t.client.watchdog.ctx.Err() != nil
	if t.held != nil && !brokenOff && t.client.observers != nil {
		t.observeRenewal(sent, now, err)
	}
	switch {
	case t.held == nil, brokenOff:
	case err == nil:
		t.armed(now, sent, t.asked)
		t.renewAt = monoTimeOf(renewalTime(sent.at, t.asked))
	case errors.Is(err, ErrNotHeld):
		t.lose(err)
	default:
		// A renewal that was never sent says less than what came before, unless that is
		// because the server has refused the user. A renewal without an answer says
		// less than a refusal that will not go away by itself, and less than anything
		// if it had less time than others.
		_, refused := errors.AsType[*driver.ServerError](err)
		final := t.lastErr != nil && !transient(t.lastErr)
		says := driver.OutcomeOf(err) != driver.OutcomeNotSent && !cutShort(err, now.at.Sub(sent.at), t.mutex.attempt())
		if t.lastErr == nil || refused || !final && says {
			t.lastErr = cmp.Or(refusal(t.mutex.name, err), err)
		}
		t.renewAt = monoTimeOf(now.at.Add(retryPause(t.asked)))
	}
	t.check(now)
	t.plan()
}
