package locker

import (
	"context"
	"errors"
	"fmt"
)

// Upgrade takes the lock for writing while this lease reads under it. It waits for the
// other readers to leave; nobody new is let in meanwhile, and writers that have been
// waiting come after it. The lease returned is a further one: this one stays as it
// is, and each is given up by its own Unlock.
//
// Of two readers that want to upgrade the second gets [ErrDeadlock] at once, since
// each would wait for the other. It has to unlock, and then to lock for writing; what
// it has read may have changed by then. If this lease ends before the lock is had
// for writing, so does Upgrade, and returns why. A lease that does not read under a
// read-write lock gives [ErrInvalid]. Its other errors are those of [Mutex.Lock].
func (l *Lease) Upgrade(ctx context.Context) (*Lease, error) { return l.upgrade(ctx, true) }

// TryUpgrade is Upgrade if no other reader holds the lock at present, and returns a
// [*LockedError] if one does. Its other errors are those of Upgrade and [Mutex.TryLock].
func (l *Lease) TryUpgrade(ctx context.Context) (*Lease, error) { return l.upgrade(ctx, false) }

func (l *Lease) upgrade(ctx context.Context, wait bool) (*Lease, error) {
	if err := l.changeable(modeRead, "upgrade"); err != nil {
		return nil, err
	}
	held := l.Context()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	return l.in(ctx, modeWrite, wait)
}

// Downgrade turns the lease from writing to reading without a gap in which another
// writer could have the lock. The lease returned reads; this one is over, as after
// Unlock. Readers who wait are let in. After an error this lease is as it was, unless
// the error is [ErrLost]. A lease that does not hold a read-write lock for writing gives
// [ErrInvalid], one that is over what [Lease.Err] says. The other errors are those of
// [Mutex.TryLock].
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	if err := l.changeable(modeWrite, "downgrade"); err != nil {
		return nil, err
	}
	reading, err := l.in(ctx, modeRead, false)
	if err != nil {
		return nil, err
	}
	returns := false
	defer func() { // where the driver or an observer panics, and somebody recovers
		if !returns {
			reading.giveBack()
		}
	}()
	// It was held until after the other one was, so that there was no gap. Should
	// the server not answer now, the release goes on in the background.
	_ = l.Unlock(ctx)
	returns = true
	return reading, nil
}

func (l *Lease) changeable(from mode, what string) error {
	if l.mutex.mode != from {
		return invalid(fmt.Sprintf("%s of a lease that does not hold a read-write lock for %s", what, from.public()))
	}
	return l.Err()
}

// in takes the lock for the owner of l in another mode, within the time of l.
func (l *Lease) in(ctx context.Context, to mode, wait bool) (*Lease, error) {
	m := l.mutex.as(to)
	op := "upgrade"
	if to == modeRead {
		op = "downgrade"
	}
	return m.observed(ctx, op, func(ctx context.Context) (*Lease, error) {
		other, err := m.lockAs(ctx, l.Owner(), wait)
		lost := l.Err()
		if lost == nil || err != nil && !errors.Is(err, lost) {
			return other, err
		}
		// Observers are told of the loss, too: nobody has canceled the call.
		if other != nil {
			// Somebody else may have been in between.
			if err := other.Unlock(context.WithoutCancel(ctx)); err != nil {
				return nil, fmt.Errorf("%w (and then: %w)", lost, err)
			}
		}
		return nil, lost
	})
}
