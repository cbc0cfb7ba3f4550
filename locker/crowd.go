package locker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A crowd counts the calls of a client that may wait for a lock, and those that found it full
// and may ask whether the lock is free, so that a flood of them ends in errors and not in the
// end of the memory.
type crowd struct {
	most          int64
	calls, asking atomic.Int64
}

// enter tells whether one more call may wait. Then leave has to be called at its end.
func (c *crowd) enter() bool { return c.admit(&c.calls) }

func (c *crowd) leave() { c.calls.Add(-1) }

func (c *crowd) admit(n *atomic.Int64) bool {
	for {
		now := n.Load()
		if now >= c.most {
			return false
		}
		if n.CompareAndSwap(now, now+1) {
			return true
		}
	}
}

// lockUncrowded is Lock for a call that may not wait as too many do. Where as many again ask
// already, a server that is slow to answer them is not asked.
func (m *Mutex) lockUncrowded(ctx context.Context, owner Owner) (*Lease, error) {
	begun := time.Now()
	refused := func(reason error) error {
		return &WaitError{Name: m.name, Cause: ErrTooManyWaiters, Reason: reason, waited: time.Since(begun)}
	}
	c := &m.client.crowd
	if !c.admit(&c.asking) {
		return nil, refused(nil)
	}
	defer c.asking.Add(-1)
	ctx, cancel := m.boundWait(ctx)
	defer cancel()
	lease, err := m.lockAs(ctx, owner, false)
	if _, ended := errors.AsType[*WaitError](err); !ended && (errors.Is(err, ErrLocked) || errors.Is(err, ErrUnavailable)) {
		return nil, refused(err)
	}
	return lease, err
}
