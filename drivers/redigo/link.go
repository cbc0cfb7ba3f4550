package redigo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// A link is a connection of a pool while one call uses it. What is particular
// to it is that another goroutine can break it, so that the call returns and the
// pool drops the connection: a late reply is never read as another command's.
type link struct {
	redis.Conn

	demoted bool // to be dropped after the call; only the call uses this

	mu      sync.Mutex
	gone    bool  // given back: Conn belongs to somebody else
	severed error // the reason of the first sever
}

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
func (l *link) sever(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone {
		return
	}
	if l.severed == nil {
		l.severed = reason
	}
	_, _ = redis.ReceiveContext(l.Conn, expired)
}

func (l *link) reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.severed
}

// borrow takes a connection from the pool. With its error nothing was sent.
func (c *conn) borrow(ctx context.Context) (*link, error) {
	if c.life.Err() != nil {
		return nil, errClosed
	}
	if err := ended(ctx); err != nil {
		return nil, fmt.Errorf("redigo: not sent: %w", err)
	}
	rc, err := c.get(ctx)
	if err == nil {
		err = c.probe(ctx, rc)
	}
	if err == nil {
		err = ended(ctx)
	}
	if err != nil {
		if rc != nil {
			_ = rc.Close()
		}
		return nil, c.unconnected(ctx, err)
	}
	l := &link{Conn: rc}
	c.mu.Lock()
	closed := c.life.Err() != nil
	if !closed {
		c.links[l] = struct{}{}
	}
	c.mu.Unlock()
	if closed {
		_ = rc.Close()
		return nil, errClosed
	}
	return l, nil
}

// get waits for a connection. In an opened pool all that takes time heeds ctx
// and Close; an application's Dial and TestOnBorrow need not, so they get a
// goroutine that can be left behind.
func (c *conn) get(ctx context.Context) (redis.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	if c.opener != nil {
		return take(ctx, c.pool)
	}
	defer context.AfterFunc(c.life, cancel)()
	return detached(ctx, func(ctx context.Context) (redis.Conn, error) { return take(ctx, c.pool) })
}

// take is pool.GetContext without its panic: in redigo 1.9.3 a call that waits
// for a connection sends on a closed channel if its ctx ends while the pool is
// being closed.
func take(ctx context.Context, pool *redis.Pool) (rc redis.Conn, err error) {
	defer func() {
		if p := recover(); p != nil {
			rc, err = nil, fmt.Errorf("the pool panicked: %v", p)
		}
	}()
	return pool.GetContext(ctx)
}

// detached runs open in a goroutine of its own and returns when open does or ctx
// ends. What open returns after that is closed.
func detached[T io.Closer](ctx context.Context, open func(context.Context) (T, error)) (T, error) {
	type opened struct {
		conn T
		err  error
	}
	done := make(chan opened)
	go func() {
		conn, err := open(ctx)
		select {
		case done <- opened{conn, err}:
		case <-ctx.Done():
			if err == nil {
				_ = conn.Close()
			}
		}
	}()
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

// probe finds out once whether the application's connections can be severed.
// DoContext without a command sends nothing.
func (c *conn) probe(ctx context.Context, rc redis.Conn) error {
	if c.opener != nil || c.capable.Load() {
		return nil
	}
	if _, err := redis.DoContext(rc, ctx, ""); err != nil {
		return fmt.Errorf("%w: calls must be able to end, so the connections that the pool's Dial returns must implement redis.ConnWithContext (%w)", driver.ErrUnsupported, err)
	}
	c.capable.Store(true)
	return nil
}

// guard severs l when ctx ends, and when a wrapped pool's connection, which may
// have no timeouts, takes too long. The call must run the function returned
// before it gives l back.
func (c *conn) guard(ctx context.Context, l *link) func() {
	stop := context.AfterFunc(ctx, func() { l.sever(ctx.Err()) })
	if c.opener != nil {
		return func() { stop() }
	}
	timer := time.AfterFunc(driver.DefaultTimeout, func() { l.sever(errSilent) })
	return func() {
		stop()
		timer.Stop()
	}
}

// giveBack returns the connection to the pool, which drops it if it is broken.
func (c *conn) giveBack(l *link) {
	c.mu.Lock()
	delete(c.links, l)
	c.mu.Unlock()
	if l.demoted {
		l.sever(errNotMaster)
	}
	l.mu.Lock()
	l.gone = true
	l.mu.Unlock()
	_ = l.Conn.Close()
}

var (
	errClosed = fmt.Errorf("redigo: %w", driver.ErrClosed)
	errNoName = errors.New("redigo: a command without a name")
	errSilent = fmt.Errorf("no reply within %v: %w", driver.DefaultTimeout, os.ErrDeadlineExceeded)
)
