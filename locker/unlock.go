package locker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// releaseTime bounds an Unlock whose server does not answer, after the renewal in
// flight.
const releaseTime = 3 * time.Second

// Unlock gives the lock up. From its call on the lease is not held here, whatever
// the outcome:
//
//   - nil: the lock was ours until now and is free.
//   - [ErrAbsent]: it had run out before; nobody holds it.
//   - [ErrTaken]: it had run out before and is somebody else's now. Theirs is
//     not touched.
//   - [ErrUnknown]: the server did not confirm it until ctx ended, for 5 seconds
//     at most. The release goes on in the background, until Close; the lock is
//     free when it gets through, or when the TTL has passed.
//   - a [*driver.ServerError]: the server refused (NOPERM, for instance). It is
//     tried again in the background all the same.
//   - [ErrReleased]: the lease was detached.
//
// Unlock may be called again; it gives the same answer, or after ErrUnknown asks
// once more. Give it a context that outlives the work, such as
// context.WithoutCancel(ctx); with one that has ended, the release is done in the
// background.
func (l *Lease) Unlock(ctx context.Context) error {
	l.client.join()
	defer l.client.leave()
	done, err := l.startRelease(ctx)
	if done == nil {
		return err
	}
	ctx, cancel := outlive(ctx)
	defer cancel()
	outcome, known := l.release(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endRelease(outcome, known)
	return outcome
}

// endRelease needs l.mu.
func (l *Lease) endRelease(outcome error, known bool) {
	if known {
		l.state, l.outcome = leaseReleased, outcome
	} else if time.Now().Before(l.lapse) {
		l.unsure = true // the errand may get it done
	}
	close(l.releasing)
	l.releasing = nil
}

// outlive returns a context that ends with ctx, but not by the end of the lease
// itself, which ends the context of [Mutex.Do]: Unlock has just caused that.
func outlive(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Done() == nil {
		return ctx, func() {}
	}
	base, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		if cause := context.Cause(ctx); !errors.Is(cause, ErrReleased) {
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

// startRelease ends the holding and makes this call the one that releases. If it
// need not or cannot, done is nil and err the answer.
func (l *Lease) startRelease(ctx context.Context) (done chan struct{}, err error) {
	for {
		l.mu.Lock()
		switch {
		case l.state == leaseReleased:
			defer l.mu.Unlock()
			return nil, l.outcome
		case l.state == leaseDetached:
			l.mu.Unlock()
			return nil, ErrReleased
		case l.releasing == nil:
			// A lease lost by the server's own word needs no request.
			if lost, ok := errors.AsType[*LostError](l.cause); ok && errors.Is(lost.Reason, ErrNotHeld) && !l.unsure {
				defer l.mu.Unlock()
				l.state, l.outcome = leaseReleased, lost.Reason
				return nil, l.outcome
			}
			if l.check(suspended.recent()) == nil {
				l.end(leaseLost, ErrReleased)
			}
			l.releasing = make(chan struct{})
			done, renewal := l.releasing, l.renewal
			l.mu.Unlock()
			l.client.dog.remove(&l.job)
			if renewal != nil {
				l.join(ctx, renewal)
			}
			return done, nil
		}
		other := l.releasing
		l.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("locker: unlock %q: %w: %w", l.Name(), ErrUnknown, context.Cause(ctx))
		}
	}
}

// join waits for the renewal in flight: nothing of this lease shall be on its way
// after Unlock. If it does not end in time it does no harm, as it creates nothing.
func (l *Lease) join(ctx context.Context, renewal <-chan struct{}) {
	timer := time.NewTimer(DefaultAttemptTimeout)
	defer timer.Stop()
	select {
	case <-renewal:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// release makes the request until its outcome is known or time is up.
func (l *Lease) release(ctx context.Context) (outcome error, known bool) {
	l.mu.Lock()
	unsure, lapse := l.unsure, l.lapse
	l.mu.Unlock()
	c := l.client.store.releaseCall(&l.mutex.keys, l.id, l.mutex.cfg.ttl, l.late)
	var last error
	begun := time.Now()
	for n := 0; ctx.Err() == nil; n++ {
		sent := time.Now()
		left := releaseTime - sent.Sub(begun)
		if left <= 0 {
			break
		}
		err := l.request(ctx, c, left)
		if outcome, known := releaseOutcome(err, unsure); known {
			return outcome, true
		}
		// A request that found nothing because the lease had lapsed released nothing.
		if driver.OutcomeOf(err) == driver.OutcomeUnknown && sent.Before(lapse) {
			unsure = true
		}
		last = requestError(err)
		if !transient(err) || n > 0 && l.client.sleep(ctx, retryPause(l.mutex.cfg.ttl)) != nil {
			break
		}
	}
	if !l.client.dog.errand(l.Name(), c, lapse, nil) {
		l.client.missed(l.Name())
	}
	if cause := context.Cause(ctx); cause != nil && !errors.Is(last, cause) {
		last = errors.Join(cause, last)
	}
	if !unsure && driver.OutcomeOf(last) == driver.OutcomeReplied {
		return fmt.Errorf("locker: unlock %q: %w", l.Name(), last), false
	}
	return fmt.Errorf("locker: unlock %q: %w: %w", l.Name(), ErrUnknown, last), false
}

// releaseOutcome tells what the answer to a release means. A lock that is absent
// after a release of unknown outcome was released by that.
func releaseOutcome(err error, unsure bool) (outcome error, known bool) {
	switch {
	case err == nil, errors.Is(err, ErrAbsent) && unsure:
		return nil, true
	case errors.Is(err, ErrNotHeld):
		return err, true
	}
	return nil, false
}

// startClose ends the lease because its client closes. ok tells whether it is to
// be released by the call; an Unlock in progress does that itself.
func (l *Lease) startClose() (c call, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose(ErrClosed)
	if l.state != leaseLost || l.releasing != nil {
		return call{}, false
	}
	l.releasing = make(chan struct{})
	return l.client.store.releaseCall(&l.mutex.keys, l.id, l.mutex.cfg.ttl, l.late), true
}

// endClose notes the outcome of that.
func (l *Lease) endClose(outcome error, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endRelease(outcome, known)
}
