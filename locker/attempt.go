package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// An attempt is one call of Lock, TryLock or Attach. All its requests carry the
// same id, so that asking again after a lost reply cannot take the lock twice, nor
// mistake the lock for somebody else's.
type attempt struct {
	mutex    *Mutex
	client   *Client
	req      request
	attachID string // the detached lease to take up, if that is what it is about
	begun    time.Time
	brief    bool // the first try need not say who holds the lock: another follows

	asked   bool // a request was made
	late    bool // a request was not answered: it may have been applied, or may still be
	queued  bool // an entry may stand in the queue
	granted bool
	reason  error // what the last try said
	slot    *slot // where this waiter is woken, once it waits
}

func (m *Mutex) begin(ctx context.Context) (*attempt, error) {
	if m.problem != nil {
		return nil, m.problem
	}
	if err := m.client.enter(); err != nil {
		return nil, err
	}
	a := &attempt{mutex: m, client: m.client, begun: time.Now()}
	a.req = request{name: m.name, keys: &m.keys, id: newID(), tail: m.tail, ttl: m.cfg.ttl, fenced: m.cfg.fenced}
	if ctx.Err() != nil {
		m.client.leave()
		return nil, a.waitError(ctx)
	}
	return a, nil
}

// end leaves nothing behind on the server.
func (a *attempt) end() {
	defer a.client.leave()
	reservation := ""
	if a.slot != nil {
		a.client.hub.leave(a.slot)
		if a.queued {
			reservation = a.slot.reservation
		}
	}
	if a.granted || !a.late && reservation == "" {
		return
	}
	until := time.Now().Add(max(a.req.ttl, 10*time.Second))
	if a.attachID != "" {
		a.client.dog.run(a.req.name, unattachCall(&a.req, a.attachID), until)
		return
	}
	a.client.dog.run(a.req.name, a.client.store.giveUpCall(&a.req, reservation, a.late), until)
}

// resends is how often a try repeats a request that got no reply.
const resends = 2

// try asks for the lock until there is an answer: the lease, or why not.
func (a *attempt) try(ctx context.Context, p place) (*Lease, error) {
	for n := 0; ; n++ {
		sent := now()
		token, err := a.request(ctx, p)
		if err == nil {
			lease := newLease(a.mutex, a.req.id, token, sent, a.late)
			if lease.Valid() {
				return a.take(lease)
			}
			// The reply took longer than the lease is good for. Asking again arms it.
			a.late = true
			err = fmt.Errorf("the reply came after the lease's deadline")
		}
		if locked(err) {
			return nil, err
		}
		if driver.OutcomeOf(err) == driver.OutcomeUnknown {
			a.late = true
		}
		if ctx.Err() != nil {
			return nil, err
		}
		if n == resends || driver.OutcomeOf(err) != driver.OutcomeUnknown || !transient(err) {
			return nil, requestError(err)
		}
		if n > 0 && a.client.sleep(ctx, retryPause(a.req.ttl)) != nil {
			return nil, requestError(err)
		}
	}
}

// locked tells that err is an answer about the lock and not about a request.
func locked(err error) bool {
	return errors.Is(err, ErrLocked) || errors.Is(err, ErrForeign) || errors.Is(err, ErrNotHeld)
}

func (a *attempt) take(lease *Lease) (*Lease, error) {
	if !a.client.dog.add(&lease.job, lease.next()) {
		a.late = true
		return nil, ErrClosed
	}
	a.granted = true
	return lease, nil
}

// request makes one request.
func (a *attempt) request(ctx context.Context, p place) (Token, error) {
	ctx, cancel := context.WithTimeout(ctx, a.mutex.attempt)
	defer cancel()
	first := !a.asked
	a.asked = true
	switch {
	case a.attachID != "":
		return a.client.store.attach(ctx, &a.req, a.attachID)
	case first && !a.req.fenced:
		ok, err := a.client.store.set(ctx, &a.req)
		if ok || err != nil {
			return 0, err
		}
		a.reason = &LockedError{Name: a.req.name}
		if a.brief {
			return 0, a.reason
		}
	}
	a.queued = a.queued || p.reservation != ""
	return a.client.store.acquire(ctx, &a.req, p)
}

// wait tries until the lock is had or it is time to stop.
func (a *attempt) wait(ctx context.Context) (*Lease, error) {
	p := place{}
	a.brief = a.mutex.cfg.retry == nil
	for n := 1; ; n++ {
		listens := a.slot != nil && a.client.hub.listens()
		sleep, again := a.policy(listens)(n, rand.Float64())
		if listens {
			p = place{reservation: a.slot.reservation, channel: a.client.hub.channel, life: 2*max(sleep, 0) + 5*time.Second}
		}
		lease, err := a.try(ctx, p)
		if err == nil {
			return lease, nil
		}
		if errors.Is(err, ErrLocked) {
			a.reason = err
			if ctx.Err() != nil {
				return nil, a.waitError(ctx)
			}
		} else if err = a.explain(ctx, err); !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || !a.client.link.answered.Load() {
			return nil, err
		}
		a.reason = err
		if !again {
			return nil, err
		}
		if a.slot == nil {
			// From here on it waits: it must be listening before it tries again.
			a.slot = a.client.hub.join()
			if a.client.hub.ready(ctx) && errors.Is(err, ErrLocked) {
				continue
			}
		}
		if err := a.sleep(ctx, sleep); err != nil {
			return nil, err
		}
	}
}

func (a *attempt) policy(listens bool) RetryPolicy {
	switch {
	case a.mutex.cfg.retry != nil:
		return a.mutex.cfg.retry
	case listens:
		return listening
	default:
		return polling
	}
}

// sleep waits for the message that the lock is free, the end of the holder's lease,
// or the policy's time, whichever comes first.
func (a *attempt) sleep(ctx context.Context, d time.Duration) error {
	if locked, ok := errors.AsType[*LockedError](a.reason); ok && locked.Holder.Remaining > 0 {
		// Everybody else wakes then, too.
		d = min(d, locked.Holder.Remaining+time.Millisecond+rand.N(10*time.Millisecond))
	}
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-a.slot.woken:
		return nil
	case <-ctx.Done():
		return a.waitError(ctx)
	case <-a.client.ctx.Done():
		return &WaitError{Name: a.req.name, Cause: ErrClosed, Reason: a.reason, waited: time.Since(a.begun)}
	}
}

// explain makes err a *WaitError if it is ctx that ended the call before there was
// an answer.
func (a *attempt) explain(ctx context.Context, err error) error {
	if err == nil || ctx.Err() == nil || locked(err) {
		return err
	}
	if a.reason == nil && !errors.Is(err, ctx.Err()) {
		a.reason = requestError(err)
	}
	return a.waitError(ctx)
}

func (a *attempt) waitError(ctx context.Context) error {
	e := &WaitError{Name: a.req.name, Cause: context.Cause(ctx), Reason: a.reason, waited: time.Since(a.begun)}
	if err := ctx.Err(); err != e.Cause {
		e.ctxErr = err
	}
	return e
}
