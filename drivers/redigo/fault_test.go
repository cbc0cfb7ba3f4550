package redigo_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// A reply that comes after its call was given up must not be read as the answer
// to the next command on that connection.
func TestLateReply(t *testing.T) {
	for name, call := range map[string]func(context.Context, driver.Conn) error{
		"Do": func(ctx context.Context, c driver.Conn) error {
			_, err := c.Do(ctx, command("GET", "slow"))
			return err
		},
		"DoBatch": func(ctx context.Context, c driver.Conn) error {
			cmds := []driver.Command{command("PING"), command("GET", "slow"), command("PING")}
			results := c.(driver.Batcher).DoBatch(ctx, cmds)
			if results[0].Err != nil {
				return results[0].Err
			}
			return results[2].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
				do(t, c, "SET", "slow", "late")
				do(t, c, "SET", "next", "right")
				rule := r.On(wire.Match{Arg: "slow"}, wire.HoldReply)
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(20*time.Millisecond, cancel)
				start := time.Now()
				err := call(ctx, c)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
				require.Equal(t, 20*time.Millisecond, time.Since(start))

				rule.Release()
				for range 10 {
					require.Equal(t, "right", do(t, c, "GET", "next"))
				}
			})
		})
	}
}

// A call whose ctx ends just as its reply arrives may get either; what follows
// is never confused.
func TestReplyAsCtxEnds(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		r.On(wire.Match{Name: "ECHO", Times: -1}, wire.Delay(10*time.Millisecond))
		var workers sync.WaitGroup
		for w := range 4 {
			workers.Go(func() {
				for i := range 100 {
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
					want := fmt.Sprint(w, i)
					v, err := c.Do(ctx, command("ECHO", want))
					cancel()
					if err != nil {
						assert.ErrorIs(t, err, context.DeadlineExceeded)
					} else {
						assert.Equal(t, want, v)
					}
					v, err = c.Do(t.Context(), command("ECHO", want))
					assert.NoError(t, err)
					assert.Equal(t, want, v)
				}
			})
		}
		workers.Wait()
	})
}

func TestBlackHole(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		do(t, c, "PING")
		r.Mute()
		start := time.Now()
		_, err := c.Do(t.Context(), command("SET", "k", "v"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "the caller's ctx has not ended")
		require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		require.Equal(t, driver.DefaultTimeout, time.Since(start))
		do(t, c, "PING") // on a new connection
	})
}

// The read timeout and ctx's deadline pass at the same instant: ctx has ended, and
// the error must say so.
func TestTimeoutAsCtxEnds(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{Timeout: 10 * time.Millisecond})
		r.On(wire.Match{Name: "ECHO", Times: -1}, wire.BlackHole)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			_, err := c.Do(ctx, command("ECHO", "x"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Error(t, ctx.Err(), "returned before its ctx ended")
			cancel()
		}
	})
}

func TestDialTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{DialTimeout: 2 * time.Second})
		r.HangDials()
		start := time.Now()
		_, err := c.Do(t.Context(), command("PING"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// Of an application's pool a call waits as long for a connection as for a reply. When both
// times end at once, it was sent all the same.
func TestSilenceAsLongAsThePatience(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		for range 100 {
			do(t, c, "PING")
			rule := r.On(wire.Match{Name: "INCR"}, wire.HoldReply)
			_, err := c.Do(t.Context(), command("INCR", "n"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			rule.Release()
		}
	})
}

func TestBlackHoleWhileSubscribed(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		s, err := c.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Add(t.Context(), "ch"))
		time.Sleep(10 * time.Minute) // silence alone breaks nothing
		do(t, c, "PUBLISH", "ch", "one")
		m, err := s.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, driver.Message{Channel: "ch", Payload: "one"}, m)

		r.Mute()
		start := time.Now()
		_, err = s.Receive(t.Context())
		require.ErrorIs(t, err, driver.ErrGap)
		require.LessOrEqual(t, time.Since(start), 15*time.Second)
		_, _ = c.Do(t.Context(), command("PING")) // its connection was muted as well
		do(t, c, "PUBLISH", "ch", "two")
		m, err = s.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, "two", m.Payload)
	})
}

func TestReadonlyDropsConnections(t *testing.T) {
	const readonly = "-READONLY You can't write against a read only replica."
	t.Run("Script", func(t *testing.T) { // as Redis 6 says it
		bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
			r.On(wire.Match{Name: "EVAL"}, wire.Answer("-ERR Error running script (call to f_1): @user_script:1: @user_script: 1: "+readonly+"\r\n"))
			_, err := c.Do(t.Context(), command("EVAL", "return 1", "0"))
			require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
			do(t, c, "SET", "k", "v")
			require.Equal(t, 2, r.Dials())
		})
	})
	t.Run("Idle", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) {
			c := r.open(driver.Config{})
			r.occupy(c, 3)
			time.Sleep(time.Millisecond) // they were used before
			r.On(wire.Match{Name: "SET"}, wire.Answer(readonly+"\r\n"))
			_, err := c.Do(t.Context(), command("SET", "k", "v"))
			require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
			r.occupy(c, 3)
			require.Equal(t, 6, r.Dials())
		})
	})
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		r.On(wire.Match{Name: "SET"}, wire.Answer(readonly+"\r\n"))
		results := c.(driver.Batcher).DoBatch(t.Context(), []driver.Command{command("SET", "k", "v"), command("GET", "k")})
		require.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(results[0].Err))
		require.NoError(t, results[1].Err, "the batch goes on")
		do(t, c, "SET", "k", "v")
		require.Equal(t, 2, r.Dials())
	})
}

// A hookedContext calls hook when a call looks at its deadline, which is before
// it turns to the pool.
type hookedContext struct {
	context.Context
	hook func()
}

func (c hookedContext) Deadline() (time.Time, bool) {
	c.hook()
	return c.Context.Deadline()
}

// A waitedContext calls hook when somebody asks for the second time when it ends: that is in the
// pool, which has a place for the call by then. The call itself is told of the end by other means,
// as of that of package locker's contexts.
type waitedContext struct {
	context.Context
	asked *int
	hook  func()
}

func (c waitedContext) OnEnd(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }

func (c waitedContext) Done() <-chan struct{} {
	if *c.asked++; *c.asked == 2 {
		c.hook()
	}
	return c.Context.Done()
}

func TestCloseEndsEverything(t *testing.T) {
	t.Run("FirstCall", func(t *testing.T) { // for the race detector
		bubble(t, func(t *testing.T, r *rig) {
			c := r.open(driver.Config{})
			var closing sync.WaitGroup
			hook := sync.OnceFunc(func() {
				closing.Go(func() { assert.NoError(t, c.Close()) })
				for range 1000 { // time for Close, without any synchronisation
					runtime.Gosched()
				}
			})
			if _, err := c.Do(hookedContext{t.Context(), hook}, command("PING")); err != nil {
				require.ErrorIs(t, err, driver.ErrClosed)
			}
			closing.Wait()
		})
	})
	t.Run("CallThatEnds", func(t *testing.T) { // for the race detector
		bubble(t, func(t *testing.T, r *rig) {
			c := r.open(driver.Config{})
			do(t, c, "PING")
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			var closing sync.WaitGroup
			hook := func() {
				cancel()
				closing.Go(func() { assert.NoError(t, c.Close()) })
				for range 1000 { // time for Close, without any synchronisation
					runtime.Gosched()
				}
			}
			if _, err := c.Do(waitedContext{ctx, new(int), hook}, command("PING")); err != nil {
				require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			}
			closing.Wait()
		})
	})
	t.Run("Call", func(t *testing.T) {
		bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
			do(t, c, "PING")
			r.Mute()
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
			require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			require.Zero(t, time.Since(start))
		})
	})
	t.Run("CallThatWaits", func(t *testing.T) { // for a connection
		bubble(t, func(t *testing.T, r *rig) {
			c := r.open(driver.Config{PoolSize: 1})
			r.On(wire.Match{Name: "PING"}, wire.HoldReply)
			outcomes := make(chan driver.Outcome, 3)
			for range 3 {
				go func() {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					_, err := c.Do(ctx, command("PING"))
					assert.ErrorIs(t, err, driver.ErrClosed)
					outcomes <- driver.OutcomeOf(err)
				}()
			}
			synctest.Wait()
			start := time.Now()
			require.NoError(t, c.Close())
			require.ElementsMatch(t, []driver.Outcome{driver.OutcomeUnknown, driver.OutcomeNotSent, driver.OutcomeNotSent},
				[]driver.Outcome{<-outcomes, <-outcomes, <-outcomes})
			require.Zero(t, time.Since(start))
		})
	})
	t.Run("Dial", func(t *testing.T) {
		bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
			r.HangDials()
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
	t.Run("Subscription", func(t *testing.T) {
		bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
			s, err := c.(driver.Subscriber).Subscribe(t.Context())
			require.NoError(t, err)
			require.NoError(t, s.Add(t.Context(), "ch"))
			require.NoError(t, c.Close())
			_, err = s.Receive(t.Context())
			require.ErrorIs(t, err, driver.ErrClosed)
			_, err = c.(driver.Subscriber).Subscribe(t.Context())
			require.ErrorIs(t, err, driver.ErrClosed)
		})
	})
}
