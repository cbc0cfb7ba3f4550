package customdriver

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
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
func Wrap(client *theirClient) driver.Connector { return wrapped{client} }

type wrapped struct{ client *theirClient }

func (w wrapped) Connect(context.Context) (driver.Conn, error) {
	c := &wrappedConn{client: w.client}
	c.closed, c.close = context.WithCancel(context.Background())
	return c, nil
}

func (wrapped) Driver() driver.Driver { return Driver{} }

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
	case ended(ctx) != nil:
		err = ended(ctx)
	}
	err = fmt.Errorf("wrapped: %w", err)
	if notSent {
		return driver.NotSent(err)
	}
	return err // unknown
}

// ended returns the error of a ctx that has ended. A client that gives the ctx's
// deadline to its socket notices it a moment before ctx does.
func ended(ctx context.Context) error {
	if at, ok := ctx.Deadline(); ok && !time.Now().Before(at) {
		return context.DeadlineExceeded
	}
	return ctx.Err()
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
