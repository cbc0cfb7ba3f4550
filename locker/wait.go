package locker

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

const (
	// maxSleep bounds what a policy may ask for.
	maxSleep = MaxTTL
	// keepPlace is how often a waiter renews its place in the queue while it sleeps.
	keepPlace = 30 * time.Second
	// placeSlack is how much longer than two sleeps a place is kept. It bounds what a
	// waiter that died costs those behind it: it may be granted the lock for the
	// rest of its reservation.
	placeSlack = 2 * time.Second
)

// A standing is the place in the queue that the last answer confirmed: the server
// had not granted the lock to it yet when the request that was sent at sent was
// executed, and would keep it for life from then.
type standing struct {
	seq  string
	sent moment
	life time.Duration
}

// wait tries until the lock is acquired or it is time to stop.
func (a *attempt) wait(ctx context.Context) (*Lease, error) {
	a.brief = a.mutex.cfg.retry == nil
	if a.slot == nil && a.brief && !a.req.unfair && a.client.quorum == nil && a.client.contention.likely(a.req.keys.record, a.begun) {
		a.listen(ctx)
	}
	for n := 1; ; n++ {
		left, again := a.policy(n)
		a.more = again
		// One attempt of the policy: the try, the sleep after it, and all tries
		// meanwhile that are about the place in the queue or the connection.
		for next := time.Now().Add(left); ; {
			lease, err := a.try(ctx, next)
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
				// From here on it waits: it must be listening before it asks for
				// a place in the queue, and that is not another attempt.
				a.listen(ctx)
				if errors.Is(a.reason, ErrLocked) {
					left, again = a.policy(n)
					next = time.Now().Add(left)
					continue
				}
			}
			lease, attemptOver, err := a.sleep(ctx, next)
			if lease != nil || err != nil {
				return lease, err
			}
			if attemptOver {
				break
			}
		}
	}
}

// listen makes the attempt one that waits for messages.
func (a *attempt) listen(ctx context.Context) {
	a.slot = a.client.hub.join(a.mutex, a.begun)
	a.client.hub.ready(ctx)
}

// place is where the waiter, which will sleep until then, is to stand.
func (a *attempt) place(until time.Time) place {
	p := place{reservation: a.slot.reservation}
	if a.client.hub.listens() {
		p.channel = a.client.hub.channel
	}
	p.life = 2*a.nap(max(time.Until(until), 0)) + placeSlack
	return p
}

// nap is the longest sleep, no longer than d, after which a waiter has to see to its place in
// the queue. A waiter that nobody tells may be granted the lock unheard, and must take note
// while the grant lasts. A writer's place at the nodes of a quorum keeps new readers out, even
// where nobody holds the lock: after the writer's death that is to last no longer than a lease
// would.
func (a *attempt) nap(d time.Duration) time.Duration {
	if !a.client.hub.listens() {
		d = min(d, pollInterval, a.req.ttl/2)
	}
	if a.client.quorum != nil && a.req.mode == modeWrite {
		d = min(d, max(a.req.ttl/2, pollInterval))
	}
	return min(d, keepPlace)
}

// consider notes why the lock was not acquired. It returns an error if that, or the end
// of ctx, ends the wait.
func (a *attempt) consider(ctx context.Context, err error) error {
	if _, ended := errors.AsType[*WaitError](err); ended { // between the rounds of a try
		return err
	}
	if !errors.Is(err, ErrLocked) {
		err = a.explain(ctx, err)
		if _, ended := errors.AsType[*WaitError](err); ended || !errors.Is(err, ErrUnavailable) || ctx.Err() != nil || !a.client.deployment.contacted() {
			return err
		}
	}
	a.reason = err
	if errors.Is(err, ErrLocked) {
		a.met = true
		a.client.contention.meet(a.req.keys.record, time.Now())
	}
	if a.line != nil {
		a.line.note(err)
	}
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
	case a.slot == nil:
		policy = exponential
	case a.client.hub.listens():
		policy = listening(a.interval())
	default:
		policy = polling(min(time.Duration(a.client.hub.countWaiters(a.slot).all)*pollPause, pollInterval))
	}
	sleep, again := policy(n, rand.Float64())
	return min(max(sleep, minSleep), maxSleep), again
}

// interval is after how long a waiter looks, if it need not look sooner. Where a client has
// many waiters, each looks less often, as far as nothing but a message can be missed by
// that: a grant that it has not heard of must still last, and one that it hears of is to be
// good without another request. Where few want a lock, they look as often as if nobody
// waited for other locks: nobody else finds out about the death of a holder that was not yet
// the holder when they looked.
func (a *attempt) interval() time.Duration {
	counts := a.client.hub.countWaiters(a.slot)
	few := max(pollInterval, time.Duration(counts.locks)*pollPause) * time.Duration(min(counts.sameLock, int(keepPlace/pollInterval)))
	return max(pollInterval, min(time.Duration(counts.all)*pollPause, few, a.req.ttl/2, keepPlace))
}

// sleep waits for a message, the end of the holder's lease, or the time until which
// the policy sleeps, whichever comes first. Where the message grants the lock it
// returns the lease. over is false if the next try is not the policy's next attempt.
func (a *attempt) sleep(ctx context.Context, until time.Time) (lease *Lease, over bool, err error) {
	d, over := time.Until(until), true
	if nap := a.nap(d); nap < d {
		d, over = nap, false
	}
	if a.placeless || !errors.Is(a.reason, ErrLocked) {
		if interval := a.interval(); interval < d {
			d, over = interval, false // the lock may have become free unheard
		}
	}
	if locked, ok := errors.AsType[*LockedError](a.reason); ok && locked.Holder.Remaining > 0 {
		// Everybody else wakes then, too, and the first who looks does so for all.
		spread := max(10*time.Millisecond, time.Duration(a.client.hub.countWaiters(a.slot).sameLock)*pollPause)
		if end := locked.Holder.Remaining + time.Millisecond + rand.N(spread); end < d {
			d, over = end, a.mutex.cfg.retry == nil // the holder may have renewed it
		}
	}
	a.client.hub.sleep(a.slot, time.Now().Add(d))
	defer a.client.hub.getUp(a.slot)
	for {
		select {
		case w := <-a.slot.woken:
			switch {
			case w.seq != "" && w.seq == a.stand.seq:
				lease, err := a.accept(w)
				return lease, true, err
			case w.look:
				return nil, true, a.backOff(ctx)
			case w.hint:
				return nil, false, nil
			case w.slept:
				return nil, over, nil
			}
			// Nothing but a grant to a place that this waiter has lost since.
		case <-ctx.Done():
			return nil, false, a.waitError(ctx)
		case <-a.client.ctx.Done():
			return nil, false, a.waitError(ctx)
		}
	}
}

// backOff keeps apart the waiters that were all told by some node of a quorum that the
// lock is free: if they ask at the same time they split the vote, and keep further
// apart the next time.
func (a *attempt) backOff(ctx context.Context) error {
	if a.client.quorum == nil {
		return nil
	}
	if a.client.sleep(ctx, rand.N(time.Millisecond<<min(a.splits, 7))) != nil {
		return a.waitError(ctx)
	}
	return nil
}

// accept turns a granted place into a lease. The server granted it after it had
// executed the request that was answered last, for the TTL or what was left of the
// reservation then; so it lasts at least until that much after that request was sent.
// Where too little of it is left, or nobody will lengthen it, there is no lease yet:
// the next try asks for it, and arms the whole TTL.
func (a *attempt) accept(w wakeUp) (*Lease, error) {
	g := grant{id: a.req.id, token: w.token, owner: a.owner.name, sent: a.stand.sent, ttl: min(a.req.ttl, a.stand.life)}
	if !a.mutex.cfg.renew || newTerm(g.sent, g.ttl).leftAt(now()) < g.ttl/3 {
		return nil, nil
	}
	switch lease, err := a.take(g); err {
	case errTooLate:
		return nil, nil
	case ErrClosed:
		return nil, a.waitError(context.Background())
	default:
		return lease, err
	}
}
