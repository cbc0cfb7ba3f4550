package locker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

const (
	// unlockTime bounds an Unlock whose server does not answer, with all that it waits for.
	unlockTime = 5 * time.Second
	// releaseTime bounds the release in it, after the renewals in flight.
	releaseTime = 3 * time.Second
)

// Unlock gives the lock up. From the call on the lease is not held here, whatever the outcome:
//
//   - nil: the lock was ours until now and is free, or has gone to a goroutine of this client
//     that waited for it, without a request; or its owner has re-entered it, and still holds it
//     by another lease. In that last case nothing is sent: the last of the owner's leases to be
//     unlocked frees the lock, and its outcome is that of all. Where a reply was lost, a lock
//     that is absent when the server is asked again counts as released, though the server may
//     have lost it before.
//   - [ErrAbsent]: the lease had run out before; nobody holds the lock.
//   - [ErrTaken]: the lease had run out before, and the lock is somebody else's now. Their
//     lease is not touched.
//   - [ErrUnknown]: the server did not confirm the release before ctx ended, or within 5
//     seconds. The release goes on in the background, until Close; the lock is free when it
//     gets through, or when the TTL has passed.
//   - [ErrPermission], or another [*driver.ServerError]: the server refused. The release is
//     tried again in the background all the same.
//   - [ErrReleased]: the lease was detached.
//
// Unlock may be called again; it gives the same answer, or after ErrUnknown asks
// once more. Give it a context that outlives the work, such as
// context.WithoutCancel(ctx); with one that has ended, the release is done in the
// background.
func (l *Lease) Unlock(ctx context.Context) error {
	passed, inVain, err := l.unlock(ctx)
	if !inVain && err != ErrReleased { // else Detach tells
		l.tellEnd(givenUp{err: err, handedOn: passed})
	}
	if err == ErrAbsent || err == ErrTaken {
		return failed(fmt.Sprintf("unlock %q", l.Name()), err)
	}
	return err
}

// unlock tells besides whether the lock has gone to the next in line, and whether it has
// only waited for another call, which releases it and will know more.
func (l *Lease) unlock(ctx context.Context) (passed, inVain bool, err error) {
	t := l.tenure
	if t.pass(l) {
		return true, false, nil
	}
	t.client.join()
	defer t.client.leave()
	ctx, cancel := outlive(ctx) // before anything: with a nil ctx it panics
	defer cancel()
	end := time.Now().Add(unlockTime)
	begun, inVain, err := t.startRelease(ctx, l, end)
	if begun {
		err, _ = t.release(ctx, end)
	}
	return false, inVain, err
}

// outlive returns a context that ends with ctx, but not by the end of the lease
// itself, which ends the context of [Mutex.Do]: Unlock has just caused that.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	if _, ok := FromContext(ctx); !ok {
		return ctx, func() {}
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if cause := whyEnded(func() error { return context.Cause(ctx) }); !errors.Is(cause, ErrReleased) {
			end(cause)
		}
	})
	cancel := func() { stop(); end(nil) }
	if deadline, ok := ctx.Deadline(); ok {
		bounded, release := context.WithDeadline(base, deadline)
		return bounded, func() { release(); cancel() }
	}
	return base, cancel
}

// startRelease ends the holding of l and, if that was the last, makes this call the
// one that releases. If it need not or cannot, begun is false and err the answer; inVain
// tells that another call is still releasing.
func (t *tenure) startRelease(ctx context.Context, l *Lease, end time.Time) (begun, inVain bool, err error) {
	ended := ctx.Done() // asked for before anything is begun, since it may panic
	for {
		t.mu.Lock()
		asked := now()
		t.check(asked)
		t.letGo(l)
		switch {
		case t.held != nil, t.outcome == ErrReleased && !l.detached:
			t.mu.Unlock()
			return false, false, nil // the others hold on, or have been detached since
		case t.released:
			defer t.mu.Unlock()
			return false, false, t.outcome
		case !t.releasing:
			// A lease lost by the server's own word needs no request, except that the server must
			// not give it again to a request that arrives late, or once more. On a quorum that was
			// the word of most nodes, and others may still hold the lock for us.
			if t.outcome != nil && !t.unsure && t.client.quorum == nil {
				defer t.mu.Unlock()
				t.released = true
				if t.remember > 0 {
					t.cleanUp(t.releaseCall(), time.Now().Add(t.remember), t.mayArrive())
				}
				return false, false, t.outcome
			}
			t.beginRelease(asked)
			renewal := t.awaitable()
			t.mu.Unlock()
			t.client.watchdog.remove(&t.job)
			if renewal != nil {
				// No request of a lease should be on its way after Unlock. A renewal that
				// does not end in time does no harm, as it creates nothing.
				await(ended, renewal, min(DefaultAttemptTimeout, time.Until(end)))
			}
			return true, false, nil
		}
		if t.gone == nil {
			t.gone = make(chan struct{})
		}
		other := t.gone
		t.mu.Unlock()
		if !await(ended, other, time.Until(end)) {
			return false, true, failed(fmt.Sprintf("unlock %q", l.Name()), append([]error{ErrUnknown}, endedBeside(ctx)...)...)
		}
	}
}

// letGo ends the holding of l. It needs t.mu.
func (t *tenure) letGo(l *Lease) {
	t.end(func(held *Lease) error {
		if held == l {
			return ErrReleased
		}
		return nil
	})
}

// beginRelease needs t.mu.
func (t *tenure) beginRelease(at moment) { t.releasing, t.inTime = true, t.term.leftAt(at) > 0 }

// endRelease notes the outcome of a release.
func (t *tenure) endRelease(outcome error, known bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if known {
		t.released, t.outcome = true, outcome
	} else if now := now(); t.lapseAt(now).After(now.at) {
		t.unsure = true // the cleanup may get it done
	}
	t.rest.settled()
	if t.releasing = false; t.gone != nil {
		close(t.gone)
		t.gone = nil
	}
	t.vacate()
}

// release makes the request until its outcome is known or end has come, and then has it
// made in the background.
func (t *tenure) release(ctx context.Context, end time.Time) (outcome error, known bool) {
	t.mu.Lock()
	unsure, lapse, c := t.unsure, t.lapseAt(now()), t.releaseCall()
	t.mu.Unlock()
	defer func() { // even where the driver panics, and somebody recovers
		if !known {
			t.cleanUp(c, t.tellUntil(lapse), true)
		}
		t.endRelease(outcome, known)
	}()
	var last error // that tells something
	became := driver.OutcomeOf(nil)
	for n := 0; ctx.Err() == nil; n++ {
		sent := now()
		t.mu.Lock()
		lapse = t.lapseAt(sent)
		t.mu.Unlock()
		if limit := sent.at.Add(releaseTime); n == 0 && limit.Before(end) {
			end = limit
		}
		left := end.Sub(sent.at)
		if left <= 0 {
			break
		}
		err := t.request(ctx, c, left)
		if outcome, known := t.releaseOutcome(err, unsure); known {
			return outcome, true
		}
		// A request that found nothing because the lease had lapsed released nothing.
		if became = driver.OutcomeOf(err); became == driver.OutcomeUnknown && sent.at.Before(lapse) {
			unsure = true
		}
		if last == nil || !cutShort(err, time.Since(sent.at), t.mutex.attempt()) {
			last = requestError(t.mutex.name, err)
		}
		pause := retryPause(t.mutex.ttl)
		if !transient(err) || n > 0 && (pause > time.Until(end) || t.client.sleep(ctx, pause) != nil) {
			break
		}
	}
	if unsure {
		last = outcomeOpen(last)
	}
	what, reasons := fmt.Sprintf("unlock %q", t.mutex.name), endedBeside(ctx, last)
	if unsure || became != driver.OutcomeReplied {
		reasons = append([]error{ErrUnknown}, reasons...)
	}
	return failed(what, reasons...), false
}

// mayArrive reports whether a request that takes the lock may still be on its way: the server
// has to know then that the id is over.
func (t *tenure) mayArrive() bool { return t.remember > echoLife }

// tellUntil is until when the server has to be told that the tenure is over. The tenure lapses at
// lapse; the server has to be told even after that where a request may still arrive, and would
// find the lock free.
func (t *tenure) tellUntil(lapse time.Time) time.Time {
	if last := time.Now().Add(t.remember); t.mayArrive() && last.After(lapse) {
		return last
	}
	return lapse
}

// cleanUp has c made in the background. If frees, the lock may stay taken without it.
// However often Unlock is called, there is one cleanup at a time.
func (t *tenure) cleanUp(c call, until time.Time, frees bool) {
	if t.cleaning.CompareAndSwap(false, true) {
		t.client.cleanUp(&cleanup{name: t.mutex.name, call: c, until: until, frees: frees, held: true, done: func() { t.cleaning.Store(false) }})
	}
}

// releaseOutcome tells what the answer to a release means. unsure tells that an
// earlier request was sent and not answered. A lock that is absent then was released by that
// request; so was one that others hold, if our lease cannot have run out before it was given up.
// (It may have run out since, where the answer comes late and no earlier request arrived. That is
// no loss.) Neither holds for a lease that most nodes of a quorum have said to be lost.
func (t *tenure) releaseOutcome(err error, unsure bool) (outcome error, known bool) {
	switch {
	case err == nil:
		return nil, true
	case errors.Is(err, ErrNotHeld):
		t.mu.Lock()
		defer t.mu.Unlock()
		if unsure && t.outcome == nil && (errors.Is(err, ErrAbsent) || t.inTime) {
			err = nil
		}
		return err, true
	}
	return nil, false
}

// inForce tells whether the lease would still be held had it not been given up.
func (t *tenure) inForce() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.term.leftAt(exactNow()) > 0
}

// releaseCall needs t.mu.
func (t *tenure) releaseCall() call {
	clear, remember := t.rest.drop(), t.remember
	if t.rest != nil && clear == 0 {
		// A script has gone to the rest. Until it is answered, or its time is over, the nodes
		// know that the lease is over.
		remember = max(remember, echoLife, 2*t.client.quorum.cfg.NodeTimeout)
	}
	if t.rest.owes(t.client.ctx.Err() != nil) {
		remember = max(remember, voidLife(t.mutex.ttl))
	}
	if clear != 0 && t.term.leftAt(now()) <= 0 {
		// The lease may have run out, and those nodes may have granted the lock to
		// others. They know.
		clear = 0
	}
	c := t.client.store.releaseCall(t.mutex, t.id, t.reservation, remember)
	c.clear = clear
	if t.client.quorum != nil {
		c.frees = t
	}
	t.rest.end(c)
	return c
}

// startClose ends the tenure because its client closes. ok tells whether it is to
// be released by the call; an Unlock in progress does that itself. endRelease notes
// the outcome.
func (t *tenure) startClose() (c call, lapse time.Time, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lose(ErrClosed)
	if t.released || t.releasing {
		return call{}, time.Time{}, false
	}
	t.beginRelease(now())
	return t.releaseCall(), t.lapse.time(), true
}
