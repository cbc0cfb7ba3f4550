package redigo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// expired is a ctx whose deadline has passed long ago.
var expired = func() context.Context {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	cancel()
	return ctx
}()

// sever breaks the connection under a call in flight. redigo documents that
// ReceiveContext closes the network connection when its ctx has ended; with one
// that had ended before, that is all it does. Unlike Close, which detaches the
// pooled connection, it may run beside Do, Send and Receive.
func sever(rc redis.Conn) { _, _ = redis.ReceiveContext(rc, expired) }

// borrow takes a connection from the pool. With an application's pool, a call
// of redigo 1.9.3 that waits for one sends on a closed channel if its ctx ends while the
// application closes the pool. No other panic is recovered: it is of the application's
// functions, and the pool has lost a place by it, for which calls might wait for ever.
func (c *conn) borrow(ctx context.Context) (rc redis.Conn, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if failure, ok := p.(runtime.Error); !ok || failure.Error() != "send on closed channel" || ctx.Err() == nil {
			panic(p)
		}
		err = ctx.Err()
	}()
	return c.pool.GetContext(ctx)
}

// probe finds out once whether the pool's connections can be severed. DoContext
// without a command sends nothing.
func (c *conn) probe(rc redis.Conn) error {
	if c.severable.Load() {
		return nil
	}
	if _, err := redis.DoContext(rc, context.Background(), ""); err != nil {
		return fmt.Errorf("redigo: %w: calls must be able to end, so the connections that the pool's Dial returns must implement redis.ConnWithContext (%w)", driver.ErrUnsupported, err)
	}
	c.severable.Store(true)
	return nil
}

// over returns an error if a call with ctx has to end.
func (c *conn) over(ctx context.Context) error {
	if c.life.Err() != nil {
		return fmt.Errorf("redigo: %w", driver.ErrClosed)
	}
	if err := aside.Ended(ctx); err != nil {
		return fmt.Errorf("redigo: call abandoned: %w", err)
	}
	return nil
}

// unconnected explains why there is no connection. What it returns matches the
// errors of package context only if the caller's own ctx has ended. What an
// application's Dial says may show the password, in a URL that it was given and
// that is none. Any other error of that type is of a request that Dial has made, such as
// for a password that changes: net/http leaves out those in its URLs.
func (c *conn) unconnected(ctx context.Context, err error) error {
	if over := c.over(ctx); over != nil {
		return over
	}
	if err.Error() == "redigo: get on closed pool" { // by the application that made it
		return fmt.Errorf("redigo: the pool is closed: %w", driver.ErrClosed)
	}
	err = answered(err)
	about, ok := errors.AsType[*url.Error](err)
	switch {
	case ok && about.Op == "parse":
		err = errors.New("the pool's Dial was given an invalid URL")
	case driver.OutcomeOf(err) == driver.OutcomeReplied:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w (%v)", os.ErrDeadlineExceeded, err)
	}
	return fmt.Errorf("redigo: no connection: %w", err)
}
