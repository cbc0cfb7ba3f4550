package locker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A waiterLimit keeps the calls of a client that may wait for a lock within [MaxWaiters], and as many
// again that may only ask whether the lock is free, so that a flood of them ends in errors and not
// in the end of the memory.
type waiterLimit struct {
	limit           int64 // of each of these
	waiting, asking atomic.Int64
}

// enter tells whether one more call may wait. Then leave has to be called at its end.
func (l *waiterLimit) enter() bool { return l.admit(&l.waiting) }

func (l *waiterLimit) leave() { l.waiting.Add(-1) }

func (l *waiterLimit) admit(n *atomic.Int64) bool {
	for {
		now := n.Load()
		if now >= l.limit {
			return false
		}
		if n.CompareAndSwap(now, now+1) {
			return true
		}
	}
}

// lockOverLimit is Lock for a call that may not wait because too many do. Where as many
// again ask already, a server that is slow to answer them is not asked.
func (m *Mutex) lockOverLimit(ctx context.Context, owner Owner) (*Lease, error) {
	begun := time.Now()
	refused := func(reason error) error {
		return &WaitError{Name: m.name, Cause: ErrTooManyWaiters, Reason: reason, waited: time.Since(begun)}
	}
	limit := &m.client.waiterLimit
	if !limit.admit(&limit.asking) {
		return nil, refused(nil)
	}
	defer limit.asking.Add(-1)
	ctx, cancel := m.boundWait(ctx)
	defer cancel()
	lease, err := m.lockAs(ctx, owner, false)
	if _, ended := errors.AsType[*WaitError](err); !ended && (errors.Is(err, ErrLocked) || errors.Is(err, ErrUnavailable)) {
		return nil, refused(err)
	}
	return lease, err
}
