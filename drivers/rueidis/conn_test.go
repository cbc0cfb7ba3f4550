package rueidis_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
)

// Every type of reply becomes what driver.Value says.
func TestReplies(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		want  driver.Value
	}{
		"null":          {"_\r\n", nil},
		"null bulk":     {"$-1\r\n", nil},
		"null array":    {"*-1\r\n", nil},
		"true":          {"#t\r\n", int64(1)},
		"false":         {"#f\r\n", int64(0)},
		"double":        {",2.50\r\n", "2.50"},
		"big number":    {"(123456789012345678901\r\n", "123456789012345678901"},
		"verbatim":      {"=8\r\ntxt:some\r\n", "some"},
		"like verbatim": {"$8\r\ntxt:some\r\n", "txt:some"},
		"set":           {"~2\r\n+a\r\n:1\r\n", []any{"a", int64(1)}},
		"map":           {"%2\r\n+z\r\n:1\r\n:7\r\n%1\r\n+a\r\n_\r\n", []any{"z", int64(1), int64(7), []any{"a", nil}}},
		"nested errors": {"*3\r\n-ERR DB went away\r\n!8\r\nMOVED at\r\n+OK\r\n", []any{
			&driver.ServerError{Code: "ERR", Message: "ERR DB went away"},
			&driver.ServerError{Code: "MOVED", Message: "MOVED at"}, "OK",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := open(t, wired(w))
				w.On(wire.Match{Name: "ECHO"}, wire.Answer(c.reply))
				assert.Equal(t, c.want, do(t, conn, "ECHO", "x"))
			})
		})
	}
}

// rueidis takes "ERR " off: what follows is not the code.
func TestErrorCode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		for _, reply := range []string{"ERR DB index is out of range", "ERR ERR twice", "ERR", "NOSCRIPT No matching script", "WRONGTYPE"} {
			w.On(wire.Match{Name: "ECHO"}, wire.Answer("-"+reply+"\r\n"))
			_, err := conn.Do(t.Context(), command("ECHO", "x"))
			assert.Equal(t, driver.NewServerError(reply), err)
		}
	})
}

// What makes rueidis panic is an error, and does not harm the rest of a batch.
func TestNeverPanics(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		bad := []driver.Command{
			{}, command(""), command("SUBSCRIBE", "ch"), command("pUnsubscribe"),
			keyed(1, 2, "GET", "k"), keyed(-1, 1, "GET", "k"), keyed(1, -1, "GET", "k"), keyed(9, 1, "GET"),
		}
		for _, cmd := range bad {
			_, err := conn.Do(t.Context(), cmd)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v: %v", cmd, err)
		}
		results := driver.DoBatch(t.Context(), conn, append(bad, command("ECHO", "fine")))
		require.Len(t, results, len(bad)+1)
		for i := range bad {
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(results[i].Err), "%v: %v", bad[i], results[i].Err)
		}
		assert.Equal(t, driver.Result{Value: "fine"}, results[len(bad)])
	})
}

// rueidis alone does not hear of a cancellation on an idle connection if the ctx
// has a deadline as well, nor ever without auto pipelining.
func TestCancelBesideDeadline(t *testing.T) {
	for name, change := range map[string]func(*rue.ClientOption){
		"defaults":      func(*rue.ClientOption) {},
		"no pipelining": func(o *rue.ClientOption) { o.DisableAutoPipelining = true },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := connect(t, rueidis.Wrap(client(t, w, change)))
				w.On(wire.Match{Name: "GET"}, wire.BlackHole)
				ctx, cancel := context.WithCancel(within(t, time.Hour))
				time.AfterFunc(50*time.Millisecond, cancel)
				start := time.Now()
				_, err := conn.Do(ctx, command("GET", "k"))
				assert.Equal(t, 50*time.Millisecond, time.Since(start))
				require.ErrorIs(t, err, context.Canceled)
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			})
		})
	}
}

// A call that has to connect first does not wait for that longer than its ctx
// allows, and is not sent when the connection is there at last.
func TestCtxEndsWhileConnecting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		listen(t, conn)
		rule := w.On(wire.Match{Name: "HELLO"}, wire.HoldReply)
		w.KillAll()
		synctest.Wait()
		start := time.Now()
		_, err := conn.Do(within(t, 50*time.Millisecond), command("SET", "late", "v"))
		assert.Equal(t, 50*time.Millisecond, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		rule.Release()
		do(t, conn, "PING")
		assert.Zero(t, w.Count(wire.Match{Name: "SET"}), "sent for nobody")
	})
}

// Nor is a command sent for a Conn that was closed meanwhile, though its client goes on.
func TestClosedWhileConnecting(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		wrapped := client(t, w)
		conn := connect(t, rueidis.Wrap(wrapped))
		listen(t, conn)
		rule := w.On(wire.Match{Name: "HELLO"}, wire.HoldReply)
		w.KillAll()
		synctest.Wait()
		called := make(chan error)
		go func() {
			_, err := conn.Do(within(t, 5*time.Second), command("SET", "late", "v"))
			called <- err
		}()
		<-rule.Happened()
		require.NoError(t, conn.Close())
		require.ErrorIs(t, <-called, driver.ErrClosed)
		rule.Release()
		require.NoError(t, wrapped.Do(t.Context(), wrapped.B().Ping().Build()).Error())
		assert.Zero(t, w.Count(wire.Match{Name: "SET"}), "sent for nobody")
	})
}

// A dial serves all calls and goes on when the call that began it is given up.
func TestDialOutlivesCall(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		listen(t, conn)
		w.HangDials()
		w.KillAll()
		synctest.Wait()
		before := w.Dials()
		for range 5 {
			_, err := conn.Do(within(t, 50*time.Millisecond), command("PING"))
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		w.ResumeDials()
		assert.Equal(t, "PONG", do(t, conn, "PING"))
		assert.Equal(t, before+1, w.Dials())
	})
}

// When a server hangs, calls that were given up stay with rueidis. They must not
// pile up, and those that come later must not wait for them.
func TestFrozenServer(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		do(t, conn, "PING")
		w.Partition()
		var calls sync.WaitGroup
		var unsent atomic.Int64
		ctx := within(t, time.Second)
		for range 2000 {
			calls.Go(func() {
				_, err := conn.Do(ctx, command("INCR", "n"))
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				if driver.OutcomeOf(err) == driver.OutcomeNotSent {
					unsent.Add(1)
				}
			})
		}
		start := time.Now()
		calls.Wait()
		assert.Equal(t, time.Second, time.Since(start))
		assert.Greater(t, unsent.Load(), int64(2000-256), "too many calls are with rueidis")
		w.Heal()
		assert.Equal(t, "PONG", do(t, conn, "PING"))
	})
}

// Those that wait for others, which the application's client goes on with, end with the Conn.
func TestCloseEndsWhoWaitsForOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w)))
		do(t, conn, "PING")
		w.Partition()
		var calls sync.WaitGroup
		var unsent atomic.Int64
		for range 300 {
			calls.Go(func() {
				_, err := conn.Do(t.Context(), command("INCR", "n"))
				assert.ErrorIs(t, err, driver.ErrClosed)
				if driver.OutcomeOf(err) == driver.OutcomeNotSent {
					unsent.Add(1)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		require.NoError(t, conn.Close())
		calls.Wait()
		assert.Zero(t, time.Since(start))
		assert.Greater(t, unsent.Load(), int64(300-256))
		w.Heal()
	})
}

// Without a deadline a call ends all the same, even if the application has
// switched off every timeout that rueidis has.
func TestBoundedWithoutDeadline(t *testing.T) {
	off := func(o *rue.ClientOption) { o.ConnWriteTimeout, o.Dialer.KeepAlive = -1, -1 }
	for name, c := range map[string]struct {
		connector func(*testing.T, *wire.Wire) driver.Connector
		bound     time.Duration
	}{
		"opened": {func(t *testing.T, w *wire.Wire) driver.Connector { return connector(t, wired(w)) }, 8 * time.Second},
		"wrapped": {func(t *testing.T, w *wire.Wire) driver.Connector {
			return rueidis.Wrap(client(t, w))
		}, 12 * time.Second},
		"wrapped without timeouts": {func(t *testing.T, w *wire.Wire) driver.Connector {
			return rueidis.Wrap(client(t, w, off))
		}, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := connect(t, c.connector(t, w))
				w.On(wire.Match{Name: "GET"}, wire.BlackHole)
				start := time.Now()
				_, err := conn.Do(context.Background(), command("GET", "k"))
				assert.LessOrEqual(t, time.Since(start), c.bound)
				require.ErrorIs(t, err, os.ErrDeadlineExceeded)
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			})
		})
	}
}

// How long a silent connection is used is a matter of the timeout alone, however short.
func TestSilentConnectionIsGivenUp(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		t.Run(timeout.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				cfg := wired(w)
				cfg.Timeout = timeout
				conn := open(t, cfg)
				listen(t, conn)
				w.Mute()
				start := time.Now()
				_, err := conn.Do(t.Context(), command("PING"))
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
				assert.GreaterOrEqual(t, time.Since(start), timeout)
				assert.LessOrEqual(t, time.Since(start), timeout*14/10)
			})
		})
	}
}

// Who wants no timeout may set one of ages, several of which are more than a Duration holds.
func TestTimeoutsOfAges(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		cfg := wired(w)
		cfg.DialTimeout, cfg.Timeout = math.MaxInt64, math.MaxInt64
		assert.Equal(t, "PONG", do(t, open(t, cfg), "PING"))
	})
}

// The package comment warns of options without which rueidis leaves no dead connection.
func TestDeadConnectionsNeedPINGs(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*rue.ClientOption)
		left   bool
	}{
		"defaults":            {func(*rue.ClientOption) {}, true},
		"no KeepAlive":        {func(o *rue.ClientOption) { o.Dialer.KeepAlive = -1 }, false},
		"no ConnWriteTimeout": {func(o *rue.ClientOption) { o.ConnWriteTimeout = -1 }, false},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := connect(t, rueidis.Wrap(client(t, w, c.change)))
				listen(t, conn)
				w.Mute()
				for range 60 {
					_, _ = conn.Do(within(t, 10*time.Second), command("PING"))
				}
				assert.Equal(t, c.left, w.Dials() > 1)
			})
		})
	}
}

// The application's own call connects, and is cancelled: that is not the end of
// our ctx.
func TestCancellationOfOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		c := client(t, w)
		conn := connect(t, rueidis.Wrap(c))
		do(t, conn, "PING")
		w.HangDials()
		w.KillAll()
		synctest.Wait()
		theirs, cancel := context.WithCancel(t.Context())
		go c.Do(theirs, c.B().Ping().Build())
		synctest.Wait()
		result := make(chan error, 1)
		go func() {
			_, err := conn.Do(t.Context(), command("GET", "k"))
			result <- err
		}()
		synctest.Wait()
		cancel()
		err := <-result
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.Canceled)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	})
}

// A batch that breaks half-way keeps the replies it has, also when it is the
// first thing on its connection.
func TestBatchBreaksHalfWay(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		w.On(wire.Match{Name: "INCR", Arg: "c"}, wire.CutReply)
		results := driver.DoBatch(t.Context(), conn, []driver.Command{
			keyed(1, 1, "INCR", "a"), keyed(1, 1, "INCR", "b"), keyed(1, 1, "INCR", "c"), keyed(1, 1, "INCR", "d"),
		})
		assert.Equal(t, driver.Result{Value: int64(1)}, results[0])
		assert.Equal(t, driver.Result{Value: int64(1)}, results[1])
		for _, r := range results[2:] {
			require.Error(t, r.Err)
			assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(r.Err))
		}
		for _, key := range []string{"a", "b", "c", "d"} {
			assert.Equal(t, 1, w.Count(wire.Match{Name: "INCR", Arg: key}))
		}
	})
}

// A batch that rueidis would take to a connection of its own stays in order with
// what came before.
func TestLargeBatch(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w)))
		cmds := make([]driver.Command, rue.DefaultBlockingPipeline+1)
		for i := range cmds {
			cmds[i] = keyed(1, 1, "APPEND", "k", string(rune('a'+i%26)))
		}
		for i, r := range driver.DoBatch(t.Context(), conn, cmds) {
			require.NoError(t, r.Err)
			require.Equal(t, int64(i+1), r.Value)
		}
		assert.Equal(t, 1, w.Dials())
	})
}

func TestDescribe(t *testing.T) {
	for name, c := range map[string]struct {
		reply string
		want  string
	}{
		"told":    {"=32\r\ntxt:# Server\r\nrun_id:abc123\r\nx:y\r\n", "abc123"},
		"refused": {"-NOPERM User has no permissions to run the 'info' command\r\n", ""},
		"silent":  {"$10\r\n# Server\r\n\r\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := open(t, wired(w))
				w.On(wire.Match{Name: "INFO"}, wire.Answer(c.reply))
				topology, err := conn.(driver.Describer).Describe(t.Context())
				require.NoError(t, err)
				assert.Equal(t, driver.Topology{RunID: c.want}, topology)
			})
		})
	}
}

// Close does not wait for a server that hangs, and leaves nothing behind (which
// the bubble checks).
func TestCloseFrozen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		subscribe(t, conn, "ch")
		w.Partition()
		var calls sync.WaitGroup
		for i := range 300 {
			calls.Go(func() {
				_, err := conn.Do(t.Context(), command("INCR", fmt.Sprint(i)))
				assert.ErrorIs(t, err, driver.ErrClosed)
			})
		}
		synctest.Wait()
		start := time.Now()
		require.NoError(t, conn.Close())
		assert.Less(t, time.Since(start), 100*time.Millisecond)
		calls.Wait()
		synctest.Wait()
		assert.Zero(t, w.Open())
		require.NoError(t, errors.Join(conn.Close(), conn.Close()))
	})
}
