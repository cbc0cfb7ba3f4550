package locker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Do takes the lock with the given name, runs work and gives the lock up, whatever
// becomes of work: a return, a panic, runtime.Goexit. It is short for
// [Mutex.Do] of [Client.Mutex].
func (c *Client) Do(ctx context.Context, name string, work func(ctx context.Context) error, opts ...Option) error {
	return c.Mutex(name, opts...).Do(ctx, work)
}

// Do runs work under the lock, and gives it up, whatever becomes of work. It waits for the lock
// as [Mutex.Lock] does, and returns that error; then it is [Lease.Do].
//
// The context given to work carries ctx's values and ends when ctx does, or when
// the lock is lost: then context.Cause is an [ErrLost] and work must stop, because
// soon somebody else may hold the lock. [FromContext] gives the lease to work.
// Do returns work's error, joined with the loss if the lock was lost.
func (m *Mutex) Do(ctx context.Context, work func(ctx context.Context) error) error {
	if work == nil {
		return nilWork()
	}
	lease, err := m.Lock(ctx)
	if err != nil {
		return err
	}
	return lease.Do(ctx, work)
}

func nilWork() error { return invalid("Do of a nil function") }

// Do runs work under a lease that is held already, and gives it up, whatever becomes of work: a
// return, a panic, runtime.Goexit. So for work that should be skipped where somebody else is at
// it, call [Mutex.TryLock] and then Do.
//
// The context given to work carries ctx's values and ends when ctx does, or when the lock is
// lost: then context.Cause is an [ErrLost] and work must stop, because soon somebody else may
// hold the lock. The context carries the lease, too: [FromContext] gives it to work, and calls
// with that context re-enter a lock that has owners. Where work itself gives the lease up, or
// another Do of the same lease ends, the context ends with [ErrReleased].
//
// Do returns work's error as it is, joined with the loss if the lock was lost while work ran
// (also if work did not notice), and with an [ErrUnknown] if the release was not confirmed,
// whether the server did not answer or refused. As a rule that error is an [ErrUnavailable] as
// well, but work has run: a caller that repeats what an unavailable server has prevented must
// look for ErrUnknown first. Do gives the lease up under a context of its own, so that a ctx
// that has ended does not leave the lock behind; where the server does not answer, Do therefore
// returns up to 5 seconds later.
//
// A lease that Do was called on is given up even where work is not run: if the lease is over,
// when Do returns what [Lease.Err] says; if ctx is over, when it returns why; if work is nil,
// which is [ErrInvalid]; and if Do panics, as it does with a nil ctx.
func (l *Lease) Do(ctx context.Context, work func(ctx context.Context) error) (err error) {
	over := l.Err()
	if errors.Is(over, ErrReleased) {
		return over
	}
	done := context.Background()
	defer func() { // before ctx is asked for anything, since it may panic
		lost := l.Err()
		if errors.Is(lost, ErrReleased) {
			lost = nil // by work itself
		}
		unlockErr := l.Unlock(done)
		switch {
		case errors.Is(unlockErr, ErrReleased):
			unlockErr = nil // work has detached the lease
		case errors.Is(unlockErr, ErrNotHeld):
			if lost == nil { // while work ran, unnoticed
				reason := ErrAbsent
				if errors.Is(unlockErr, ErrTaken) {
					reason = ErrTaken
				}
				lost = &LostError{Name: l.Name(), Reason: reason}
			}
			unlockErr = nil
		case unlockErr != nil && !errors.Is(unlockErr, ErrUnknown):
			// The release was refused, which alone could as well be the reason why the
			// lock was not acquired.
			unlockErr = &failedError{text: unlockErr.Error(), reasons: []error{ErrUnknown, unlockErr}}
		}
		err = joined(err, unreported(err, lost), unlockErr)
	}()
	done = context.WithoutCancel(ctx)
	switch {
	case work == nil:
		return nilWork()
	case over != nil:
		return over
	case ctx.Err() != nil:
		return failed(fmt.Sprintf("do %q", l.Name()), ended(ctx)...)
	}
	ctx, cancel := context.WithCancelCause(carry(ctx, l))
	defer cancel(ErrReleased)
	held := l.Context()
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	defer stop()
	return work(ctx)
}

// joined is [errors.Join], but an error that is alone stays as it is.
func joined(errs ...error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// unreported leaves out a loss that work has returned already.
func unreported(err, lost error) error {
	if lost != nil && errors.Is(err, lost) {
		return nil
	}
	return lost
}

type leaseKey struct{}

// carried is a lease that a context carries, and those that the context it was
// derived from carries.
type carried struct {
	lease *Lease
	outer *carried
}

func carriedBy(ctx context.Context) *carried {
	c, _ := ctx.Value(leaseKey{}).(*carried)
	return c
}

// carry makes ctx carry the lease besides those it carries already.
func carry(ctx context.Context, lease *Lease) context.Context {
	return context.WithValue(ctx, leaseKey{}, &carried{lease, carriedBy(ctx)})
}

// leases gives all leases that ctx carries, innermost first, whether they are still
// held or not.
func leases(ctx context.Context) iter.Seq[*Lease] {
	return func(yield func(*Lease) bool) {
		for c := carriedBy(ctx); c != nil && yield(c.lease); c = c.outer {
		}
	}
}

// FromContext returns the lease under which [Lease.Do] or [Mutex.Do] runs the work that was
// given ctx, for its token, deadline and the like, or the lease whose [Lease.Context] ctx was
// derived from. Of several leases it returns the innermost. ok is false if there is none.
func FromContext(ctx context.Context) (lease *Lease, ok bool) {
	for lease := range leases(ctx) {
		return lease, true
	}
	return nil, false
}

// WithoutLease returns ctx with all its values except the leases that it carries and the owner
// that [WithOwner] has given it, so that nothing done under it passes for a part of what the
// leases protect. It is for background work that the holder of a lock starts and does not wait
// for. Such work waits for the lock like anybody else's, and without a [DeadlockError]. It does
// not re-enter a lock of the holder's either, unless the lock says [As]; WithOwner gives it an
// owner of its own.
//
// The returned context ends when ctx does, and so with the lease where ctx is the context of
// work. Most background work should go on:
//
//	locker.WithoutLease(context.WithoutCancel(ctx))
//
// Do not use it for work that the holder waits for: the two would wait for each other.
func WithoutLease(ctx context.Context) context.Context {
	return WithOwner(context.WithValue(ctx, leaseKey{}, (*carried)(nil)), Owner{})
}
