package customdriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// theirClient stands for the client library that a driver is written for.
type theirClient struct {
	call   func(ctx context.Context, args []string) (any, error)
	closed bool
}

func (c *theirClient) Call(ctx context.Context, args []string) (any, error) { return c.call(ctx, args) }
func (c *theirClient) Close() error                                         { c.closed = true; return nil }

// theirError is how that library returns an error reply, without its "ERR ".
type theirError string

func (e theirError) Error() string { return string(e) }

// errTheirDial is its error when it has no connection to send a command on.
var errTheirDial = errors.New("no connection")

// Wrap returns a Connector on a client that stays the application's.
func Wrap(client *theirClient) driver.Connector {
	return driver.NewConnector(Driver{}, func(context.Context) (driver.Conn, error) {
		if client == nil {
			return nil, fmt.Errorf("wrapped: Wrap of a nil client: %w", driver.ErrUnsupported)
		}
		c := &wrappedConn{client: client}
		c.closed, c.close = context.WithCancel(context.Background())
		return c, nil
	})
}

type wrappedConn struct {
	client *theirClient
	closed context.Context
	close  context.CancelFunc
}

func (c *wrappedConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if c.closed.Err() != nil {
		return nil, driver.NotSent(fmt.Errorf("wrapped: %w", driver.ErrClosed))
	}
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("wrapped: %w", err))
	}
	call, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closed, cancel)()

	reply, err := c.client.Call(call, cmd.Args)
	if err != nil {
		return nil, c.outcome(ctx, err)
	}
	return value(reply), nil
}

// outcome says of a failed call what is known about it.
func (c *wrappedConn) outcome(ctx context.Context, err error) error {
	if refusal, ok := errors.AsType[theirError](err); ok {
		return driver.NewServerError("ERR " + string(refusal))
	}
	notSent := errors.Is(err, errTheirDial)
	switch {
	case c.closed.Err() != nil:
		err = driver.ErrClosed
	default:
		err = cmp.Or(aside.Ended(ctx), err)
	}
	err = fmt.Errorf("wrapped: %w", err)
	if notSent {
		return driver.NotSent(err)
	}
	return err // unknown
}

// value maps what the library returns to the types of a driver.Value.
func value(reply any) driver.Value {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case theirError:
		return driver.NewServerError("ERR " + string(reply))
	case []any:
		items := make([]any, len(reply))
		for i, item := range reply {
			items[i] = value(item)
		}
		return items
	default:
		return reply // nil, int64, string
	}
}

// Close leaves the client open: it is not ours.
func (c *wrappedConn) Close() error {
	c.close()
	return nil
}

func TestWrapped(t *testing.T) {
	client := new(theirClient)
	c, err := Wrap(client).Connect(t.Context())
	assert.NoError(t, err)

	client.call = func(context.Context, []string) (any, error) {
		return []any{[]byte("a"), int64(1), nil, theirError("no")}, nil
	}
	reply, err := c.Do(t.Context(), command("X"))
	assert.NoError(t, err)
	assert.Equal(t, []any{"a", int64(1), nil, driver.NewServerError("ERR no")}, reply)

	for _, test := range []struct {
		err  error
		want driver.Outcome
	}{
		{theirError("no"), driver.OutcomeReplied},
		{errTheirDial, driver.OutcomeNotSent},
		{errors.New("broken pipe"), driver.OutcomeUnknown},
	} {
		client.call = func(context.Context, []string) (any, error) { return nil, test.err }
		_, err = c.Do(t.Context(), command("X"))
		assert.Equal(t, test.want, driver.OutcomeOf(err), "%v", test.err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	client.call = func(ctx context.Context, _ []string) (any, error) {
		cancel()
		<-ctx.Done()
		return nil, errors.New("interrupted")
	}
	_, err = c.Do(ctx, command("X"))
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	_, err = c.Do(ctx, command("X"))
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))

	client.call = func(ctx context.Context, _ []string) (any, error) {
		c.Close()
		<-ctx.Done()
		return nil, errors.New("interrupted")
	}
	_, err = c.Do(t.Context(), command("X"))
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	_, err = c.Do(t.Context(), command("X"))
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	assert.False(t, client.closed)
}

func TestWrappedNil(t *testing.T) {
	_, err := Wrap(nil).Connect(t.Context())
	assert.ErrorIs(t, err, driver.ErrUnsupported, "else it is taken for an outage, or the first call panics")
}

// A lateContext ends a moment after its deadline, as every one does when timers are late.
type lateContext struct {
	context.Context
	deadline time.Time
}

func (c lateContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Who is told that the deadline has passed finds that ctx has ended, and not an outage.
func TestWrappedReturnsNotBeforeItsContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := &theirClient{call: func(ctx context.Context, _ []string) (any, error) {
			at, _ := ctx.Deadline()
			time.Sleep(time.Until(at)) // as a socket does that has the deadline of ctx
			return nil, errors.New("i/o timeout")
		}}
		c, err := Wrap(client).Connect(t.Context())
		assert.NoError(t, err)
		deadline := time.Now().Add(time.Second)
		inner, cancel := context.WithDeadline(t.Context(), deadline.Add(time.Millisecond))
		defer cancel()
		ctx := lateContext{inner, deadline}
		_, err = c.Do(ctx, command("X"))
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Error(t, ctx.Err(), "it returned before")
	})
}
