package redigo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A link is a connection of a pool while one call uses it. What is particular
// to it is that it is broken when the call is to end early, so that the call
// returns and the pool drops the connection: a late reply is never read as
// another command's.
type link struct {
	redis.Conn
	conn    *conn
	caller  context.Context
	ctx     context.Context // ends with caller, with the conn and after too long a silence
	silence *time.Timer     // ends ctx
	release func()          // nobody severs Conn any more after it
	demoted bool
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
func sever(rc redis.Conn) { _, _ = redis.ReceiveContext(rc, expired) }

// borrow takes a connection from the pool for cmds. With its error nothing was
// sent.
func (c *conn) borrow(ctx context.Context, cmds ...driver.Command) (*link, error) {
	if slices.ContainsFunc(cmds, func(cmd driver.Command) bool { return len(cmd.Args) == 0 }) {
		return nil, errors.New("redigo: a command without a name")
	}
	rc, err := c.open(ctx, c.pool.GetContext)
	if err != nil {
		return nil, err
	}
	if err = c.probe(rc); err == nil {
		err = c.over(ctx)
	}
	if err != nil {
		_ = rc.Close()
		return nil, err
	}
	return c.link(ctx, rc), nil
}

// open returns what the given function opens. It returns when ctx ends or the conn
// is closed, although an application's Dial and TestOnBorrow need not.
func (c *conn) open(ctx context.Context, open func(context.Context) (redis.Conn, error)) (redis.Conn, error) {
	if err := c.over(ctx); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	type opened struct {
		conn redis.Conn
		err  error
	}
	o, err := aside.Call(bounded, nil, func() (o opened) {
		// In redigo 1.9.3 a call that waits for a connection sends on a closed
		// channel if its ctx ends while the pool is being closed.
		defer func() {
			if p := recover(); p != nil {
				o.err = fmt.Errorf("the pool panicked: %v", p)
			}
		}()
		o.conn, o.err = open(bounded)
		return o
	}, func(late opened) {
		if late.err == nil {
			_ = late.conn.Close()
		}
	})
	if err == nil {
		err = o.err
	}
	if err != nil {
		return nil, c.unconnected(ctx, err)
	}
	return o.conn, nil
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

// link makes a link for one call with ctx.
func (c *conn) link(ctx context.Context, rc redis.Conn) *link {
	bounded, cancel := context.WithCancel(ctx)
	silence := time.AfterFunc(c.silence, cancel)
	stopClose := context.AfterFunc(c.life, cancel)
	severed := make(chan struct{})
	stopSever := context.AfterFunc(bounded, func() {
		sever(rc)
		close(severed)
	})
	return &link{
		Conn:    rc,
		conn:    c,
		caller:  ctx,
		ctx:     bounded,
		silence: silence,
		release: func() {
			if !stopSever() {
				<-severed
			}
			silence.Stop()
			stopClose()
			cancel()
		},
	}
}

// giveBack returns the connection to the pool, which drops it if it is broken.
func (l *link) giveBack() {
	l.release()
	if l.demoted {
		sever(l.Conn)
	}
	_ = l.Close()
}

// result makes a Result of what redigo returned, and reports whether the
// connection is of no more use because of it.
func (l *link) result(reply any, err error) (result driver.Result, broken bool) {
	result.Err = answered(err)
	switch {
	case err == nil:
		result.Value = value(reply)
	case driver.OutcomeOf(result.Err) != driver.OutcomeReplied:
		return driver.Result{Err: l.lost(err)}, true
	case demoted(result.Err.Error()): // have the new master found
		l.demoted = true
		l.conn.suspect()
	}
	l.silence.Reset(l.conn.silence)
	return result, false
}

// lost is the error of a call whose connection broke. The outcome is unknown.
func (l *link) lost(err error) error {
	if over := l.conn.over(l.caller); over != nil {
		return over
	}
	l.conn.suspect()
	if l.ctx.Err() != nil {
		err = fmt.Errorf("no reply within %v: %w", l.conn.silence, os.ErrDeadlineExceeded)
	}
	return fmt.Errorf("redigo: %w", err)
}

// over returns an error if a call with ctx has to end.
func (c *conn) over(ctx context.Context) error {
	if c.life.Err() != nil {
		return fmt.Errorf("redigo: %w", driver.ErrClosed)
	}
	if err := ended(ctx); err != nil {
		return fmt.Errorf("redigo: call abandoned: %w", err)
	}
	return nil
}

// unconnected explains why there is no connection. What it returns matches the
// errors of package context only if the caller's own ctx has ended. What an
// application's Dial says may show the password: the URL that it was given, or the
// arguments of an AUTH that the server does not know.
func (c *conn) unconnected(ctx context.Context, err error) error {
	if over := c.over(ctx); over != nil {
		return over
	}
	reply, replied := errors.AsType[redis.Error](err)
	_, invalid := errors.AsType[*url.Error](err)
	switch {
	case replied:
		text, _, _ := strings.Cut(string(reply), ", with args beginning with")
		err = driver.NewServerError(text)
	case invalid:
		err = errors.New("the pool's Dial was given an invalid URL")
	case driver.OutcomeOf(err) == driver.OutcomeReplied:
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		err = fmt.Errorf("%w (%v)", os.ErrDeadlineExceeded, err)
	}
	return fmt.Errorf("redigo: no connection: %w", err)
}
