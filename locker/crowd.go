package locker

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// A crowd counts the calls of a client that may wait for a lock, so that a flood of them
// ends in errors and not in the end of the memory.
type crowd struct {
	most  int64
	calls atomic.Int64
}

// enter tells whether one more call may wait. Then leave has to be called at its end.
func (c *crowd) enter() bool {
	if c.calls.Add(1) <= c.most {
		return true
	}
	c.leave()
	return false
}

func (c *crowd) leave() { c.calls.Add(-1) }

// lockUncrowded is Lock for a call that may not wait as too many do.
func (m *Mutex) lockUncrowded(ctx context.Context, owner Owner) (*Lease, error) {
	begun := time.Now()
	lease, err := m.lockAs(ctx, owner, false)
	if _, ended := errors.AsType[*WaitError](err); !ended && (errors.Is(err, ErrLocked) || errors.Is(err, ErrUnavailable)) {
		return nil, &WaitError{Name: m.name, Cause: ErrTooManyWaiters, Reason: err, waited: time.Since(begun)}
	}
	return lease, err
}
