package redigo_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
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

// It takes no other one besides, which would be lost to the pool.
func TestCallsWithADeadlineTakeOneConnection(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := c.Do(ctx, command("PING"))
			cancel()
			require.NoError(t, err)
		}
		require.Equal(t, 1, r.Dials())
	})
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

// What dials for a pool of its own heeds a ctx, so that a dial that fails is not made again aside.
func TestCallsWithADeadlineDialOnce(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		through, refused := r.dial, 0
		down := false
		r.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if down {
				refused++
				return nil, syscall.ECONNREFUSED
			}
			return through(ctx, network, addr)
		}
		c := r.open(driver.Config{})
		do(t, c, "PING")
		down = true
		r.KillAll()
		time.Sleep(2 * time.Second) // by when the connection is asked whether it lives
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Do(ctx, command("PING"))
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		require.Equal(t, 1, refused)
	})
}

type callNumber struct{}

// keepsContext is a connection that keeps the ctx in which it was made, as those of tracers do.
type keepsContext struct {
	redis.ConnWithContext
	t    *testing.T
	made context.Context
	by   any // the number of the call
}

func (c keepsContext) Do(name string, args ...any) (any, error) {
	assert.Equal(c.t, c.by, c.made.Value(callNumber{}), "the ctx of another call")
	return c.ConnWithContext.Do(name, args...)
}

// Not every dialer heeds a deadline, as one through an SSH tunnel. What it makes where no
// connection should have been made is used, and must not get to see other calls.
func TestConnectionsKeepTheContextTheyWereMadeIn(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := r.pool()
		dial := pool.DialContext
		pool.MaxConnLifetime = 50 * time.Millisecond
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			rc, err := dial(context.Background())
			if err != nil {
				return nil, err
			}
			return keepsContext{rc.(redis.ConnWithContext), t, ctx, ctx.Value(callNumber{})}, nil
		}
		c := r.wrap(pool)
		for i := range 100 {
			ctx, cancel := context.WithTimeout(context.WithValue(t.Context(), callNumber{}, i), time.Second)
			_, err := c.Do(ctx, command("PING"))
			cancel()
			require.NoError(t, err)
			time.Sleep(30 * time.Millisecond)
		}
		require.Greater(t, r.Dials(), 10)
	})
}

// A hooked context is asked for its deadline before its end.
type hooked struct {
	context.Context
	onDeadline, onDone func()
}

func (h hooked) Deadline() (time.Time, bool) {
	h.onDeadline()
	return h.Context.Deadline()
}

func (h hooked) Done() <-chan struct{} {
	h.onDone()
	return h.Context.Done()
}

// Nor is a connection that was idle a moment ago waited for any longer than the call lasts: Close
// returned and the call did not, as long as the application had all that the pool may have, and
// until the deadline.
func TestCallsThatWaitForTheConnectionThatWasIdleEndPromptly(t *testing.T) {
	const soon = 30 * time.Millisecond
	cancels, closes := func(_ driver.Conn, cancel context.CancelFunc) { cancel() }, func(c driver.Conn, _ context.CancelFunc) { _ = c.Close() }
	for name, test := range map[string]struct {
		end  func(driver.Conn, context.CancelFunc)
		at   time.Duration // or when the call has begun
		want error
	}{
		"cancel":        {cancels, soon, context.Canceled},
		"close":         {closes, soon, driver.ErrClosed},
		"close at once": {closes, 0, driver.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				pool := r.pool()
				pool.MaxActive, pool.Wait = 1, true
				c := r.wrap(pool)
				do(t, c, "PING")
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var others redis.Conn
				end := func() {}
				if test.at == 0 {
					end = sync.OnceFunc(func() { test.end(c, cancel) })
				} else {
					time.AfterFunc(test.at, func() { test.end(c, cancel) })
				}
				start := time.Now()
				_, err := c.Do(hooked{ctx, end, sync.OnceFunc(func() { others = pool.Get() })}, command("SET", "k", "v"))
				assert.ErrorIs(t, err, test.want)
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				assert.Equal(t, test.at, time.Since(start))
				require.NoError(t, others.Close())
			})
		})
	}
}

// A call without a deadline waits for it no longer than for any other.
func TestCallsWithoutADeadlineWaitNoLongerForTheConnectionThatWasIdle(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := r.pool()
		pool.MaxActive, pool.Wait = 1, true
		c := r.wrap(pool)
		do(t, c, "PING")
		var others redis.Conn
		start := time.Now()
		_, err := c.Do(hooked{t.Context(), sync.OnceFunc(func() { others = pool.Get() }), func() {}}, command("SET", "k", "v"))
		assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Equal(t, driver.DefaultTimeout, time.Since(start))
		require.NoError(t, others.Close())
	})
}

// Nothing is done for a call that had ended before.
func TestCallsThatHadEndedMakeNoConnection(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.Do(ctx, command("PING"))
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		synctest.Wait()
		require.Zero(t, r.Dials())
	})
}

// Applications test in bubbles, in which a channel of another one ends the program.
func TestCallsOfAnotherBubbleAreNotReused(t *testing.T) {
	for range 5 {
		bubble(t, func(t *testing.T, r *rig) {
			pool := r.pool()
			pool.MaxIdle, pool.MaxActive, pool.Wait = 8, 8, true
			c := r.wrap(pool)
			r.On(wire.Match{Name: "PING", Times: -1}, wire.Delay(time.Millisecond))
			for _, calls := range []int{1, 1, 8, 8} {
				var all sync.WaitGroup
				for range calls {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						_, err := c.Do(ctx, command("PING"))
						assert.NoError(t, err)
					})
				}
				all.Wait()
			}
		})
	}
}

// Whoever prints a Conn does not read what its calls are changing.
func TestConnInUseIsPrinted(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, err := c.Do(ctx, command("PING"))
					cancel()
					assert.NoError(t, err)
				}
			})
		}
		for range 100 {
			assert.Equal(t, "redigo.Conn", fmt.Sprintf("%+v", c))
			runtime.Gosched()
		}
		calls.Wait()
	})
}
