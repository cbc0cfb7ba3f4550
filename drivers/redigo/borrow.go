package redigo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// expired is a ctx whose deadline has passed long ago.
var expired, _ = context.WithDeadline(context.Background(), time.Unix(0, 0))

// sever breaks the connection under a call in flight. redigo documents that
// ReceiveContext closes the network connection when its ctx has ended; with a ctx
// that has ended before, that is all it does. Unlike Close, which detaches the
// pooled connection, it may run beside Do, Send and Receive.
func sever(rc redis.Conn) { _, _ = redis.ReceiveContext(rc, expired) }

// borrow takes a connection from an application's pool, and recovers one panic: a call
// of redigo 1.9.3 that waits for a connection sends on a closed channel if its ctx ends while the
// application closes the pool. Any other panic comes from the application's
// functions and is not recovered: the pool has lost a place by it, for which calls might wait for ever.
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

// connect takes a connection from the pool, in the caller's own goroutine where that ends with ctx:
// a turn through another one costs more than all else that is done here.
func (k *call) connect(ctx context.Context) (redis.Conn, error) {
	c := k.conn
	if c.own {
		return c.pool.GetContext(ctx)
	}
	if k.idle != nil {
		rc, err := c.borrow(k.idle)
		if err == nil || c.over(ctx) != nil {
			return rc, err
		}
	}
	return c.openAside(ctx, func() (redis.Conn, error) {
		defer c.turns.Add(1)
		return c.borrow(ctx)
	})
}

// A noDial is a ctx in which an idle connection can be taken, but no time is left to make one.
type noDial struct {
	context.Context                 // the caller's
	cut             context.Context // ends when the call is cut
}

func (*noDial) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }
func (n *noDial) Done() <-chan struct{}     { return n.cut.Done() }
func (n *noDial) Err() error                { return n.cut.Err() }

// noDial returns a noDial for the call. It serves no other call: an application's DialContext may
// succeed all the same, and its connection may keep the ctx, which cannot be seen. (That connection sees it end when
// a later call is cut.) Many are made at once because making one costs as much as a good part of the call.
func (k *call) noDial() *noDial {
	if len(k.noDials) == 0 {
		k.noDials = make([]noDial, 32)
	}
	if k.uncut == nil || k.uncut.Err() != nil {
		k.uncut, k.endUncut = context.WithCancel(context.Background())
	}
	its := &k.noDials[0]
	k.noDials = k.noDials[1:]
	its.Context, its.cut = k.ctx, k.uncut
	return its
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

// unconnected explains why there is no connection. The error matches the
// errors of package context only if the caller's own ctx has ended. The error of an
// application's Dial may show the password, as part of a malformed URL that it was given.
// Any other *url.Error is that of a request that Dial has made, such as
// for a password that changes: net/http leaves the passwords out of its URLs.
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
	case driver.OutcomeOf(err) == driver.OutcomeReplied:
	case ok && about.Op == "parse", quotesURL(err):
		err = errors.New("the pool's Dial was given an invalid URL")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w (%v)", os.ErrDeadlineExceeded, err)
	}
	return fmt.Errorf("redigo: no connection: %w", err)
}

// quotesURL reports whether redigo tells in its own words what is wrong with a URL: that the // before the user is
// missing, or that the database is no number. What it quotes may be the rest of a password with a slash.
func quotesURL(err error) bool {
	text := err.Error()
	return strings.Contains(text, "invalid redis URL, url is opaque: ") || strings.Contains(text, "invalid database: ")
}
