package locker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// An attempt is one call of Lock, TryLock or Attach. All its requests carry the
// same id, so that asking again after a lost reply cannot take the lock twice, nor
// mistake the lock for somebody else's.
type attempt struct {
	mutex    *Mutex
	client   *Client
	owner    Owner
	req      request
	attachID string // the detached lease to take up, if that is what it is about
	begun    time.Time
	apart    bool // its lease is not to be re-entered
	brief    bool // the first try need not say who holds the lock: another follows

	asked    bool // a request was made
	scripted bool // one that can be remembered as given up
	late     bool // a request was not answered: it may have been applied, or may still be
	queued   bool // an entry may stand in the queue
	granted  bool
	reason   error    // what the last try said
	slot     *slot    // where this waiter is woken, once it waits
	stand    standing // its place in the queue, as of the last answer
}

func (m *Mutex) begin(ctx context.Context, owner Owner) (*attempt, error) {
	if m.problem != nil {
		return nil, m.problem
	}
	if err := m.client.enter(); err != nil {
		return nil, err
	}
	a := &attempt{mutex: m, client: m.client, owner: owner, begun: time.Now()}
	a.req = request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: owner.name, tail: m.tail, ttl: m.ttl, fenced: m.cfg.fenced}
	if ctx.Err() != nil {
		m.client.leave()
		return nil, a.waitError(ctx)
	}
	return a, nil
}

// reenter gives the owner a lock that it holds on this client already. Where too
// little of that lease is left, the server is asked, and told which it is.
func (a *attempt) reenter() (*Lease, bool) {
	t := a.client.holdings.find(a.mutex, a.owner)
	if t == nil {
		return nil, false
	}
	lease, ok := t.join(a.mutex)
	if !ok {
		a.req.within = t.id
	}
	a.granted = ok
	return lease, ok
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
	c, done := a.client.store.giveUpCall(&a.req, reservation, a.remember()), func() {}
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

// remember is for how long the server has to know that the attempt's id is over.
func (a *attempt) remember() time.Duration {
	switch {
	case a.late:
		return voidLife(a.req.ttl)
	case a.scripted:
		return echoLife
	}
	return 0
}

// resends is how often a try repeats a request that got no reply.
const resends = 2

// try asks for the lock until there is an answer: the lease, or why not.
func (a *attempt) try(ctx context.Context, p place) (*Lease, error) {
	for n := 0; ; n++ {
		if a.slot != nil {
			a.client.hub.refresh(a.slot)
		}
		sent := now()
		g, err := a.request(ctx, p, sent)
		if err == nil {
			lease, ok := a.take(g)
			if ok {
				return lease, nil
			}
			if lease == nil {
				return nil, ErrClosed
			}
			// The reply took longer than the lease is good for. Asking again arms it.
			a.late = true
			err = fmt.Errorf("the reply came after the lease's deadline")
		}
		if answered(err) {
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

// answered tells that err is an answer about the lock and not about a request.
func answered(err error) bool {
	for _, answer := range []error{ErrLocked, ErrForeign, ErrNotHeld, ErrDeadlock} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// request makes one request.
func (a *attempt) request(ctx context.Context, p place, sent moment) (grant, error) {
	ctx, cancel := context.WithTimeout(ctx, a.mutex.attempt)
	defer cancel()
	defer context.AfterFunc(a.client.ctx, cancel)()
	first := !a.asked
	a.asked = true
	g := grant{id: a.req.id, owner: a.owner.name, sent: sent, ttl: a.req.ttl}
	var err error
	switch {
	case a.attachID != "":
		a.scripted = true
		g.token, g.owner, err = a.client.store.attach(ctx, &a.req, a.attachID, a.client.attaching.last(a.attachID))
		return g, err
	case first && !a.req.fenced && !a.req.mode.owned():
		ok, err := a.client.store.set(ctx, &a.req)
		if ok || err != nil {
			return g, err
		}
		a.reason = &LockedError{Name: a.req.name}
		if a.brief {
			return g, a.reason
		}
	}
	a.queued = a.queued || p.reservation != ""
	a.scripted = true
	var seq string
	g.token, seq, err = a.client.store.acquire(ctx, &a.req, p)
	if seq != "" {
		a.stand = standing{seq: seq, sent: sent, life: p.life}
	}
	return g, err
}

// take makes a grant a lease. It returns none if the client is closed, and false if
// the lease is over already.
func (a *attempt) take(g grant) (*Lease, bool) {
	g.remember = a.remember()
	lease := newLease(a.mutex, g)
	if lease.tenure.term.left(g.sent.asleepNow()) <= 0 {
		return lease, false
	}
	if !lease.tenure.watch(a.apart) {
		a.late = true
		return nil, false
	}
	a.granted = true
	return lease, true
}

// explain makes err a *WaitError if it is the end of ctx or of the client that
// ended the call before there was an answer.
func (a *attempt) explain(ctx context.Context, err error) error {
	if err == nil || answered(err) || ctx.Err() == nil && a.client.ctx.Err() == nil {
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
