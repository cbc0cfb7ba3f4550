package redigo

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// arguments are what redigo wants after a command's name.
func arguments(command []string) []any {
	args := make([]any, len(command)-1)
	for i, arg := range command[1:] {
		args[i] = arg
	}
	return args
}

// value makes a [driver.Value] of a reply. It changes arrays in place.
func value(reply any) driver.Value {
	switch reply := reply.(type) {
	case []byte:
		return string(reply)
	case redis.Error:
		return driver.NewServerError(string(reply))
	case []any:
		for i := range reply {
			reply[i] = value(reply[i])
		}
		return reply
	case nil, int64, string:
		return reply
	default: // redigo has none; a Conn of another make might
		return fmt.Sprint(reply)
	}
}

// answered puts a *driver.ServerError in the place of redigo's own type.
func answered(err error) error {
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return driver.NewServerError(string(reply))
	}
	return err
}

// demoted reports whether an error reply says that the server is a master no
// more. Before Redis 7 it says so of a script in the middle of another text.
func demoted(reply string) bool {
	return strings.HasPrefix(reply, "READONLY ") || strings.Contains(reply, "-READONLY ")
}

// timerLateness is how long after its deadline a ctx may take to end.
const timerLateness = 100 * time.Millisecond

// ended is ctx.Err(), except that it waits for a ctx that is about to end: a
// network deadline taken from ctx can pass a moment before ctx says so itself.
func ended(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	deadline, ok := ctx.Deadline()
	if !ok || time.Now().Before(deadline) {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(timerLateness):
		return context.DeadlineExceeded
	}
}

// lost is the error of a call whose connection broke, by err or for a reason of
// ours. The outcome is unknown.
func lost(ctx context.Context, reason, err error) error {
	if ended := ended(ctx); ended != nil {
		reason = ended
	}
	if reason != nil {
		return fmt.Errorf("redigo: call abandoned: %w", reason)
	}
	return fmt.Errorf("redigo: %w", err)
}

// unconnected explains why there is no connection. What it returns matches the
// errors of package context only if the caller's own ctx has ended.
func (c *conn) unconnected(ctx context.Context, err error) error {
	if c.life.Err() != nil {
		return errClosed
	}
	if ended := ended(ctx); ended != nil {
		return fmt.Errorf("redigo: no connection: %w", ended)
	}
	err = answered(err)
	if _, ok := errors.AsType[*driver.ServerError](err); ok {
		return fmt.Errorf("redigo: no connection: %w", err)
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return fmt.Errorf("redigo: no connection: %w (%v)", os.ErrDeadlineExceeded, err)
	}
	if _, ok := errors.AsType[*url.Error](err); ok { // it may show a password
		return errors.New("redigo: no connection: the pool's Dial was given an invalid URL")
	}
	return fmt.Errorf("redigo: no connection: %w", err)
}
