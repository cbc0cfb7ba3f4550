package rueidis

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A gate bounds how many calls are with rueidis at the same time, those whose
// caller has given up included. Without it they would pile up on a server that
// hangs, at the rate of requests. A Cluster has a gate for each of clusterGates
// ranges of slots, so that a server that hangs keeps nothing from the others.
type gate chan struct{}

const (
	maxInFlight  = 1<<ringScale - 8 // leaves rueidis room for its PINGs
	clusterGates = 64
)

// A callContext is the ctx that rueidis sees of a call. It ends only with the
// Conn: rueidis may connect on behalf of a call, which is of use to all and is
// not to end with the one, and it would hold the connection's deadline to the
// call's if there were one, and then not hear of a cancellation any more. But
// Err, which rueidis asks before it queues a command, tells that the caller has
// gone, so that nothing is sent late that need not be.
//
// Since Done is not nil and there is no deadline, rueidis always pipelines. Then
// a batch that breaks half-way keeps the replies it has.
type callContext struct {
	context.Context // the caller's
	life            context.Context
}

func (c callContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (c callContext) Done() <-chan struct{}                   { return c.life.Done() }
func (c callContext) Err() error                              { return cmp.Or(c.life.Err(), c.Context.Err()) }

// call runs f, which calls rueidis, aside, and returns as soon as ctx ends, the
// Conn is closed or c.limit has passed. rueidis itself is not that prompt: not
// while it connects or looks for the master, and not when its ring is full.
func call[T any](ctx context.Context, c *conn, g gate, f func(context.Context) T) (T, error) {
	limited := ctx
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > c.limit {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.limit)
		defer cancel()
	}
	select {
	case g <- struct{}{}:
		result, err := aside.Call(limited, c.life.Done(), func() T {
			defer func() { <-g }()
			return f(callContext{limited, c.life})
		}, nil)
		if err != nil {
			err = c.ended(ctx, "no reply")
		}
		return result, err
	case <-limited.Done():
	case <-c.life.Done():
	}
	var none T
	return none, driver.NotSent(c.ended(ctx, "too many calls in flight"))
}

// ended says why a call did not wait any longer, and what it waited for.
func (c *conn) ended(ctx context.Context, what string) error {
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("rueidis: %s: %w", what, ctx.Err())
	case c.life.Err() != nil:
		return fmt.Errorf("rueidis: %s: %w", what, driver.ErrClosed)
	default:
		return fmt.Errorf("rueidis: %s for %v: %w", what, c.limit, os.ErrDeadlineExceeded)
	}
}
