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
	c, done := a.client.store.giveUpCall(&a.req, reservation, a.late), func() {}
	if a.attachID != "" {
		c, done = unattachCall(&a.req, a.attachID), a.client.attaching.unsure(a.attachID, a.req.id)
	}
	if !a.client.dog.errand(a.req.name, c, time.Now().Add(max(a.req.ttl, 10*time.Second)), done) {
		done()
		if a.late {
			a.client.missed(a.req.name)
		}
	}
}

// resends is how often a try repeats a request that got no reply.
const resends = 2

// try asks for the lock until there is an answer: the lease, or why not.
func (a *attempt) try(ctx context.Context, p place) (*Lease, error) {
	for n := 0; ; n++ {
		if a.slot != nil {
			// A wake-up from before the request says what the request will find out.
			select {
			case <-a.slot.woken:
			default:
			}
		}
		sent := now()
		token, err := a.request(ctx, p)
		if err == nil {
			lease := newLease(a.mutex, grant{id: a.req.id, token: token, sent: sent, ttl: a.req.ttl, late: a.late})
			if lease.tenure.term.left(sent.asleepNow()) > 0 {
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
		if ctx.Err() != nil || a.client.ctx.Err() != nil {
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
	if !lease.tenure.watch() {
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
	defer context.AfterFunc(a.client.ctx, cancel)()
	first := !a.asked
	a.asked = true
	switch {
	case a.attachID != "":
		return a.client.store.attach(ctx, &a.req, a.attachID, a.client.attaching.last(a.attachID))
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

const (
	// maxSleep bounds what a policy may ask for.
	maxSleep = MaxTTL
	// keepPlace is how often a waiter renews its place in the queue while it sleeps.
	// While the server is unavailable it tries every pollInterval at least.
	keepPlace = 30 * time.Second
)

// wait tries until the lock is had or it is time to stop.
func (a *attempt) wait(ctx context.Context) (*Lease, error) {
	a.brief = a.mutex.cfg.retry == nil
	for n := 1; ; n++ {
		left, again := a.policy(n)
		for {
			lease, err := a.try(ctx, a.place(min(left, keepPlace)))
			if err == nil {
				return lease, nil
			}
			if err = a.consider(ctx, err); err != nil {
				return nil, err
			}
			if !again {
				return nil, a.reason
			}
			if a.slot == nil {
				// From here on it waits: it must be listening before it tries
				// again, and that try is not another attempt.
				a.slot = a.client.hub.join()
				if a.client.hub.ready(ctx) && errors.Is(a.reason, ErrLocked) {
					left, again = a.policy(n)
					continue
				}
			}
			d := min(left, keepPlace)
			if !errors.Is(a.reason, ErrLocked) {
				d = min(d, pollInterval) // the lock may have become free unheard
			}
			slept, err := a.sleep(ctx, d)
			if err != nil {
				return nil, err
			}
			if left -= d; !slept || left <= 0 {
				break
			}
		}
	}
}

// place is where the waiter is to be told, if it listens.
func (a *attempt) place(sleep time.Duration) place {
	if a.slot == nil || !a.client.hub.listens() {
		return place{}
	}
	return place{reservation: a.slot.reservation, channel: a.client.hub.channel, life: 2*sleep + 5*time.Second}
}

// consider notes why the lock was not had. It returns an error if that, or the end
// of ctx, ends the wait.
func (a *attempt) consider(ctx context.Context, err error) error {
	if !errors.Is(err, ErrLocked) {
		err = a.explain(ctx, err)
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || !a.client.link.answered.Load() {
			return err
		}
	}
	a.reason = err
	if ctx.Err() != nil || a.client.ctx.Err() != nil {
		return a.waitError(ctx)
	}
	return nil
}

// policy says how long to sleep after the n-th attempt, and whether to go on.
func (a *attempt) policy(n int) (time.Duration, bool) {
	policy := a.mutex.cfg.retry
	switch {
	case policy != nil:
	case a.slot != nil && a.client.hub.listens():
		policy = listening
	default:
		policy = polling
	}
	sleep, again := policy(n, rand.Float64())
	return min(max(sleep, 0), maxSleep), again
}

// sleep waits for the message that the lock is free, the end of the holder's lease,
// or d, whichever comes first. It tells whether it was d.
func (a *attempt) sleep(ctx context.Context, d time.Duration) (slept bool, err error) {
	slept = true
	if locked, ok := errors.AsType[*LockedError](a.reason); ok && locked.Holder.Remaining > 0 {
		// Everybody else wakes then, too.
		if end := locked.Holder.Remaining + time.Millisecond + rand.N(10*time.Millisecond); end < d {
			d, slept = end, false
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return slept, nil
	case <-a.slot.woken:
		return false, nil
	case <-ctx.Done():
		return false, a.waitError(ctx)
	case <-a.client.ctx.Done():
		return false, a.waitError(ctx)
	}
}

// explain makes err a *WaitError if it is the end of ctx or of the client that
// ended the call before there was an answer.
func (a *attempt) explain(ctx context.Context, err error) error {
	if err == nil || locked(err) || ctx.Err() == nil && a.client.ctx.Err() == nil {
		return err
	}
	if a.reason == nil && !errors.Is(err, context.Canceled) && !errors.Is(err, ctx.Err()) {
		a.reason = requestError(err)
	}
	return a.waitError(ctx)
}

// waitError says what ended the wait: ctx, or else the client.
func (a *attempt) waitError(ctx context.Context) error {
	e := &WaitError{Name: a.req.name, Cause: ErrClosed, Reason: a.reason, waited: time.Since(a.begun)}
	if err := ctx.Err(); err != nil {
		if e.Cause = context.Cause(ctx); err != e.Cause {
			e.ctxErr = err
		}
	}
	return e
}
