package locker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
)

// Upgrade takes the lock for writing while this lease reads under it. It waits for the other
// readers to leave; nobody new is let in meanwhile, and writers that have been waiting come
// after it. The lease returned is an additional one: this one stays as it is, and each is given
// up by its own Unlock.
//
// Of two readers that want to upgrade the second gets [ErrDeadlock] at once, since each would
// wait for the other. It has to unlock, and then lock for writing; what it has read may have
// changed by then. If this lease ends before the lock is held for writing, Upgrade ends too and
// returns why. So it does if the server has lost this lease and nobody has noticed yet: Upgrade
// asks about that once it has the lock. A lease that does not read under a read-write lock
// gives [ErrInvalid]. The other errors of Upgrade are those of [Mutex.Lock].
func (l *Lease) Upgrade(ctx context.Context) (*Lease, error) { return l.upgrade(ctx, true) }

// TryUpgrade is Upgrade if no other reader holds the lock at present, and returns a
// [*LockedError] if one does. Its other errors are those of Upgrade and [Mutex.TryLock].
func (l *Lease) TryUpgrade(ctx context.Context) (*Lease, error) { return l.upgrade(ctx, false) }

func (l *Lease) upgrade(ctx context.Context, wait bool) (*Lease, error) {
	if err := l.changeable(modeRead, "upgrade"); err != nil {
		return l.unchanged(ctx, modeWrite, err)
	}
	held := l.Context()
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(held, func() { cancel(context.Cause(held)) })()
	return l.changeMode(both, ctx, modeWrite, wait)
}

// Downgrade turns the lease from writing to reading without a gap in which another writer could
// have the lock. The lease returned reads; this one is over, as after Unlock, and so is the
// context of work that runs under it: give [Lease.Do] of the returned lease a ctx from outside
// that work. Waiting readers are let in. After an error this lease is as it was, unless the
// error is [ErrLost]. It is ErrLost, too, where the server turns out to have lost the lease
// before. A lease that does not hold a read-write lock for writing gives [ErrInvalid]; one that
// is over gives what [Lease.Err] says. The other errors are those of [Mutex.TryLock].
func (l *Lease) Downgrade(ctx context.Context) (*Lease, error) {
	if err := l.changeable(modeWrite, "downgrade"); err != nil {
		return l.unchanged(ctx, modeRead, err)
	}
	return l.changeMode(ctx, ctx, modeRead, false)
}

// yieldTo gives the lease up, in place of which its owner now has reading. The lease was held until
// after reading was, so that there was no gap. Should the server not answer, the release goes on in
// the background.
func (l *Lease) yieldTo(ctx context.Context, reading *Lease) (*Lease, error) {
	err := reading.unlessItPanics(func() error { return l.Unlock(ctx) })
	if errors.Is(err, ErrNotHeld) && l.tenure.inForce() {
		// It had not run out: the server has lost it, and others may have written since.
		return nil, reading.discard(ctx, &LostError{Name: l.Name(), Reason: ErrAbsent})
	}
	return reading, nil
}

func (l *Lease) changeable(from mode, what string) error {
	if l.mutex.mode != from {
		return invalid(fmt.Sprintf("%s of a lease that does not hold a read-write lock for %s", what, from.public()))
	}
	return l.Err()
}

// changeTo names the call that takes the lock in another mode.
func changeTo(to mode) (op string) {
	if to == modeRead {
		return "downgrade"
	}
	return "upgrade"
}

// unchanged has observers told of a change that is refused before anything is asked, as they are
// told of other calls.
func (l *Lease) unchanged(ctx context.Context, to mode, err error) (*Lease, error) {
	return l.mutex.inMode(to).observed(ctx, changeTo(to), func(context.Context) (*Lease, error) { return nil, err })
}

// changeMode takes the lock for the owner of l in another mode, within the time of l. What it has taken in vain
// it gives up within the time of its caller alone.
func (l *Lease) changeMode(ctx, caller context.Context, to mode, wait bool) (*Lease, error) {
	m, op := l.mutex.inMode(to), changeTo(to)
	return m.observed(ctx, op, func(ctx context.Context) (*Lease, error) {
		other, err := m.lockAs(ctx, l.Owner(), wait)
		lost := l.Err()
		switch {
		case lost != nil:
		case other != nil && (to == modeWrite || l.shared()): // else its release will tell
			lost = other.unlessItPanics(func() error { return l.confirm(ctx, op, wait) })
		case to == modeRead && answered(err): // others have the lock, which nobody can while l writes
			_ = l.confirm(ctx, op, wait)
			lost = l.Err()
		}
		switch {
		case lost == nil && other != nil && to == modeRead:
			return l.yieldTo(ctx, other)
		case lost == nil, to == modeWrite && err != nil && !errors.Is(err, lost):
			return other, err
		}
		// Observers are told of the loss, too: nobody has canceled the call.
		if other != nil {
			return nil, other.discard(caller, lost) // Somebody else may have been in between.
		}
		return nil, lost
	})
}

// confirm asks the server whether the lease is still there, for a caller that has just taken
// another one that is to follow it without a gap. If the server has lost it, and nobody has noticed
// yet, others may have had the lock meanwhile. A lease is never made anew, so one that is there has
// been there all the time. A caller that does not wait asks a few times only.
func (l *Lease) confirm(ctx context.Context, op string, wait bool) error {
	c := l.tenure.client
	c.join()
	defer c.leave()
	for n := 0; ; n++ {
		over, err := l.lengthen(ctx, MinTTL) // what a renewal does; it is longer already
		switch {
		case over != nil || err == nil:
			return over
		case errors.Is(err, ErrNotHeld):
			return l.Err()
		}
		again := transient(err) && (wait || n < resends)
		err = outcomeOpen(requestError(l.Name(), err)) // the one that took the other lease was sent
		if again {
			if closed := c.sleep(ctx, retryPause(l.mutex.ttl)); errors.Is(closed, ErrClosed) {
				again, err = false, closed
			}
		}
		if !again || ctx.Err() != nil {
			return cmp.Or(l.Err(), failed(fmt.Sprintf("%s %q", op, l.Name()), endedBeside(ctx, err)...))
		}
	}
}

// unlessItPanics does what is left to do before l, which has just been taken, is returned. If the
// driver or an observer panics there, and somebody recovers, l would never be given up.
func (l *Lease) unlessItPanics(do func() error) error {
	returns := false
	defer func() {
		if !returns {
			l.giveBack()
		}
	}()
	err := do()
	returns = true
	return err
}

// discard gives the lease up, which was taken in vain, and returns why. Where ctx has ended, nobody
// is kept waiting for that, unless ctx was ended by the loss of a lease from which it comes.
func (l *Lease) discard(ctx context.Context, why error) error {
	if errors.Is(context.Cause(ctx), ErrLost) {
		ctx = context.WithoutCancel(ctx)
	}
	if ctx.Err() != nil {
		l.giveBack()
		return why
	}
	if err := l.Unlock(ctx); err != nil {
		return fmt.Errorf("%w (and then: %w)", why, err)
	}
	return why
}
