package redigo_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
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
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

func TestWrapNil(t *testing.T) {
	for _, pool := range []*redis.Pool{nil, {}} {
		_, err := redigo.Wrap(pool).Connect(t.Context())
		require.ErrorIs(t, err, driver.ErrUnsupported, "it may be tried again")
		require.ErrorContains(t, err, "nil *redis.Pool")
	}
}

func TestWrappedPoolStaysOpen(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := r.pool()
		c, err := redigo.Wrap(pool).Connect(t.Context())
		require.NoError(t, err)
		do(t, c, "SET", "k", "v")
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())

		_, err = c.Do(t.Context(), command("GET", "k"))
		require.ErrorIs(t, err, driver.ErrClosed)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))

		rc := pool.Get()
		defer rc.Close()
		v, err := redis.String(rc.Do("GET", "k"))
		require.NoError(t, err)
		require.Equal(t, "v", v)
		require.Equal(t, 1, r.Dials(), "the idle connection survived")
	})
}

// Nothing mends a pool that the application has closed: nobody waits for that.
func TestWrappedPoolThatIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := r.pool()
		c := r.wrap(pool)
		do(t, c, "SET", "k", "v")
		require.NoError(t, pool.Close())
		_, err := c.Do(t.Context(), command("GET", "k"))
		require.ErrorIs(t, err, driver.ErrClosed)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	})
}

// exhausted returns a Conn on a pool of one connection, which is in use.
func exhausted(t *testing.T, r *rig, wait bool) (*redis.Pool, driver.Conn) {
	pool := r.pool()
	pool.MaxActive, pool.Wait = 1, wait
	rc := pool.Get()
	require.NoError(t, rc.Err())
	t.Cleanup(func() { _ = rc.Close() })
	return pool, r.wrap(pool)
}

func TestExhaustedPool(t *testing.T) {
	t.Run("Deadline", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			_, c := exhausted(t, r, true)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			start := time.Now()
			_, err := c.Do(ctx, command("PING"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			require.Equal(t, 50*time.Millisecond, time.Since(start))
		})
	})
	t.Run("NoDeadline", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			_, c := exhausted(t, r, true)
			start := time.Now()
			_, err := c.Do(t.Context(), command("PING"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx has not ended")
			require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			require.Equal(t, driver.DefaultTimeout, time.Since(start))
		})
	})
	t.Run("NoWait", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			_, c := exhausted(t, r, false)
			_, err := c.Do(t.Context(), command("PING"))
			require.ErrorIs(t, err, redis.ErrPoolExhausted)
			require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		})
	})
	t.Run("Close", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			_, c := exhausted(t, r, true)
			done := make(chan error)
			go func() {
				_, err := c.Do(t.Context(), command("PING"))
				done <- err
			}()
			synctest.Wait()
			start := time.Now()
			require.NoError(t, c.Close())
			err := <-done
			require.ErrorIs(t, err, driver.ErrClosed)
			require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			require.Zero(t, time.Since(start))
		})
	})
	// redigo 1.9.3 sends on a closed channel when both happen at once, and
	// panics.
	t.Run("PoolClosedAsCtxEnds", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			for range 100 {
				pool, c := exhausted(t, r, true)
				ctx, cancel := context.WithCancel(t.Context())
				var calls sync.WaitGroup
				for range 8 {
					calls.Go(func() {
						_, err := c.Do(ctx, command("PING"))
						assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
					})
				}
				synctest.Wait()
				_ = pool.Close()
				cancel()
				calls.Wait()
			}
		})
	})
}

// What an application's pool does before it hands out a connection may hang
// without heeding ctx. The call returns all the same, and the command is never
// sent, not even when the hook goes on.
func TestHangingHooks(t *testing.T) {
	for name, hang := range map[string]func(*redis.Pool, <-chan struct{}){
		"Dial": func(p *redis.Pool, release <-chan struct{}) {
			dial := p.DialContext
			p.DialContext = nil
			p.Dial = func() (redis.Conn, error) {
				<-release
				return dial(context.Background())
			}
		},
		"TestOnBorrow": func(p *redis.Pool, release <-chan struct{}) {
			rc := p.Get()
			_ = rc.Err()
			_ = rc.Close()
			p.TestOnBorrow = func(redis.Conn, time.Time) error {
				<-release
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, r *rig) {
				pool, release := r.pool(), make(chan struct{})
				hang(pool, release)
				c := r.wrap(pool)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(30*time.Millisecond, cancel)
				start := time.Now()
				_, err := c.Do(ctx, command("SET", "k", "v"))
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				require.Equal(t, 30*time.Millisecond, time.Since(start))

				close(release)
				synctest.Wait()
				require.False(t, r.server.Exists("k"))
				require.Equal(t, 1, pool.IdleCount(), "the connection that came too late is in the pool")
			})
		})
	}
}

// plainConn hides all of redigo's optional interfaces.
type plainConn struct{ redis.Conn }

func TestConnectionsThatCannotBeSevered(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.wrap(r.poolOf(func(rc redis.ConnWithContext) redis.Conn { return plainConn{rc} }))
		_, err := c.Do(t.Context(), command("SET", "k", "v"))
		require.ErrorIs(t, err, driver.ErrUnsupported)
		require.ErrorContains(t, err, "redis.ConnWithContext")
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		require.False(t, r.server.Exists("k"))

		s, err := c.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, s.Add(t.Context(), "ch"), driver.ErrUnsupported)
	})
}

func TestDialErrors(t *testing.T) {
	const secret = "hunter2"
	refused := redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
	for name, dial := range map[string]func(context.Context) (redis.Conn, error){
		"URL": func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, "redis://me:"+secret+"#x@host:1")
		},
		"URL without //": func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, "redis:me:"+secret+"@host:1")
		},
		"URL with a / in the password": func(ctx context.Context) (redis.Conn, error) {
			return redis.DialURLContext(ctx, "redis://me:1/"+secret+"@host:1")
		},
		"Refused": func(context.Context) (redis.Conn, error) { return nil, refused },
		"Quoted": func(context.Context) (redis.Conn, error) {
			return nil, redis.Error("ERR unknown command `AUTH`, with args beginning with: `" + secret + "`")
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, redigo.Wrap(&redis.Pool{DialContext: dial}))
			_, err := c.Do(t.Context(), command("PING"))
			require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			require.NotContains(t, err.Error(), secret)
			if reply, ok := errors.AsType[*driver.ServerError](err); !strings.HasPrefix(name, "URL") {
				require.True(t, ok)
				require.Equal(t, map[string]string{"Refused": "WRONGPASS", "Quoted": "ERR"}[name], reply.Code)
			}
		})
	}
}

// An application's Dial may ask somebody for a password that changes, over HTTP, and in vain.
func TestDialErrorsOfRequestsForAPassword(t *testing.T) {
	for name, why := range map[string]error{"refused": syscall.ECONNREFUSED, "late": context.DeadlineExceeded} {
		t.Run(name, func(t *testing.T) {
			c := connect(t, redigo.Wrap(&redis.Pool{DialContext: func(context.Context) (redis.Conn, error) {
				return nil, fmt.Errorf("token: %w", &url.Error{Op: "Get", URL: "http://tokens.example/", Err: why})
			}}))
			_, err := c.Do(t.Context(), command("PING"))
			require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			require.ErrorContains(t, err, `token: Get "http://tokens.example/": `+why.Error())
			require.NotErrorIs(t, err, context.DeadlineExceeded, "it was not the caller's")
			if name == "refused" {
				require.ErrorIs(t, err, why)
			}
		})
	}
}

// hastyConn is a connection of the application's own make, which does not wait for a reply for longer than
// a second. It leaves the connection inside as it is, and reads the reply when it comes.
type hastyConn struct{ redis.ConnWithContext }

func (c hastyConn) Do(name string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	return aside.Open(ctx, nil, func() (any, error) { return c.ConnWithContext.Do(name, args...) }, func(any) {})
}

// The reply that comes late must be nobody else's, and it was not the caller who gave up.
func TestConnectionsThatGiveUp(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.wrap(r.poolOf(func(rc redis.ConnWithContext) redis.Conn { return hastyConn{rc} }))
		held := r.On(wire.Match{Name: "INCR"}, wire.HoldReply)
		_, err := c.Do(t.Context(), command("INCR", "n"))
		require.ErrorContains(t, err, context.DeadlineExceeded.Error())
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx has not ended")
		require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		require.Equal(t, "mine", do(t, c, "ECHO", "mine"))
		require.Equal(t, 2, r.Dials(), "a connection was used again on which a reply may come")
		held.Release()
	})
}

// naiveConn is a connection of the application's own make, which looks at no ctx. It cannot be severed.
type naiveConn struct{ redis.ConnWithContext }

func (c naiveConn) ReceiveContext(context.Context) (any, error) { return c.Receive() }

// Calls that are answered are none the worse for that.
func TestConnectionsThatLookAtNoContext(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.wrap(r.poolOf(func(rc redis.ConnWithContext) redis.Conn { return naiveConn{rc} }))
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := c.Do(ctx, command("SET", "k", "v"))
			cancel()
			require.NoError(t, err)
		}
	})
}

// prefixingConn is a connection of the application's own make that puts a prefix before each key. It reads
// the arguments of a script as those are of redigo's own Script.
type prefixingConn struct{ redis.ConnWithContext }

func (c prefixingConn) Do(name string, args ...any) (any, error) {
	return c.ConnWithContext.Do(name, prefixed(name, args)...)
}

func (c prefixingConn) Send(name string, args ...any) error {
	return c.ConnWithContext.Send(name, prefixed(name, args)...)
}

func prefixed(name string, args []any) []any {
	first, n := 0, min(len(args), 1)
	if name == "EVAL" || name == "EVALSHA" {
		first = 2
		n, _ = args[1].(int)
	}
	args = slices.Clone(args)
	for i := first; i < first+n; i++ {
		args[i] = "app:" + args[i].(string)
	}
	return args
}

// A lock has several keys, and some of its commands are scripts: were the keys of these not changed
// together with that of SET, the lock would be granted twice.
func TestConnectionsThatChangeKeys(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := r.poolOf(func(rc redis.ConnWithContext) redis.Conn { return prefixingConn{rc} })
		var locks [2]*locker.Client
		for i := range locks {
			c, err := locker.New(redigo.Wrap(pool))
			require.NoError(t, err)
			defer c.Close()
			locks[i] = c
		}
		lease, err := locks[0].Mutex("m").TryLock(t.Context())
		require.NoError(t, err)
		brief, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err = locks[1].Mutex("m").Lock(brief)
		require.ErrorIs(t, err, locker.ErrLocked, "granted twice")
		require.NoError(t, lease.Unlock(t.Context()))
		assert.False(t, r.server.Exists("m"))
	})
}
