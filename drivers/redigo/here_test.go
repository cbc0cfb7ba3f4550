package redigo_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker/driver"
)

// A call with a deadline on an idle connection is made by its caller's own goroutine.
// It ends as promptly as any other.
func TestCallsWithADeadlineEndPromptly(t *testing.T) {
	const soon = 30 * time.Millisecond
	for name, test := range map[string]struct {
		end  func(driver.Conn, context.CancelFunc)
		want error
	}{
		"cancel":   {func(_ driver.Conn, cancel context.CancelFunc) { time.AfterFunc(soon, cancel) }, context.Canceled},
		"deadline": {func(driver.Conn, context.CancelFunc) {}, context.DeadlineExceeded},
		"close":    {func(c driver.Conn, _ context.CancelFunc) { time.AfterFunc(soon, func() { c.Close() }) }, driver.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
				do(t, c, "PING")
				rule := r.On(wire.Match{Name: "SET"}, wire.HoldReply)
				within := time.Second
				if test.want == context.DeadlineExceeded {
					within = soon
				}
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				test.end(c, cancel)
				start := time.Now()
				_, err := c.Do(ctx, command("SET", "k", "v"))
				require.ErrorIs(t, err, test.want)
				require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
				require.Equal(t, soon, time.Since(start))
				rule.Release()
				if test.want != driver.ErrClosed {
					require.Equal(t, "v", do(t, c, "GET", "k"), "not the reply of another call")
				}
			})
		})
	}
}

// Whether a connection is idle can change before it is taken. Then none is made by the
// caller's goroutine, since that may take as long as the application likes.
func TestCallsWithADeadlineMakeNoConnectionThemselves(t *testing.T) {
	for name, end := range map[string]func(driver.Conn, context.CancelFunc){
		"cancel": func(_ driver.Conn, cancel context.CancelFunc) { cancel() },
		"close":  func(c driver.Conn, _ context.CancelFunc) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				pool, release := r.pool(), make(chan struct{})
				pool.IdleTimeout = time.Minute
				c := connect(t, redigo.Wrap(pool))
				do(t, c, "PING")
				time.Sleep(time.Hour)
				require.Equal(t, 1, pool.IdleCount(), "which the pool will find to have been idle for too long")
				pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
					if end, ok := ctx.Deadline(); ok && !end.After(time.Now()) {
						return nil, context.DeadlineExceeded // as package net does
					}
					<-release // as a TLS handshake of redigo 1.9.3 does, which heeds no ctx
					return nil, context.Canceled
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				time.AfterFunc(30*time.Millisecond, func() { end(c, cancel) })
				start := time.Now()
				_, err := c.Do(ctx, command("SET", "k", "v"))
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				assert.Equal(t, 30*time.Millisecond, time.Since(start), "%v", err)
				close(release)
				synctest.Wait()
			})
		})
	}
}
