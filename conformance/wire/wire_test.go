package wire_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/internal/resp"
	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// bubble runs f with a wire to a miniredis of its own. A goroutine that is left
// after Close fails the test, because the bubble then never ends.
func bubble(t *testing.T, f func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		w := wire.New(func(context.Context) (net.Conn, error) { return m.Dial() })
		defer w.Close()
		f(t, w, m)
		assert.Empty(t, w.Broken())
	})
}

// A client writes requests and reads replies, nothing else.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, w *wire.Wire) *client {
	t.Helper()
	nc, err := w.Dial(t.Context(), "tcp", "server:6379")
	require.NoError(t, err)
	return &client{nc, bufio.NewReader(nc)}
}

func (c *client) send(t *testing.T, args ...string) {
	t.Helper()
	_, err := c.Write(resp.AppendCommand(nil, args...))
	require.NoError(t, err)
}

func (c *client) read() (any, error) {
	frame, err := resp.ReadFrame(c.r)
	if err != nil {
		return nil, err
	}
	return resp.Parse(frame)
}

func (c *client) do(t *testing.T, args ...string) any {
	t.Helper()
	c.send(t, args...)
	v, err := c.read()
	require.NoError(t, err)
	return v
}

// silent checks that nothing arrives and the connection stays open.
func (c *client) silent(t *testing.T) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(time.Hour))
	_, err := c.read()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	_ = c.SetReadDeadline(time.Time{})
}

// cut checks that the connection has been closed by the wire.
func (c *client) cut(t *testing.T) {
	t.Helper()
	_, err := c.read()
	require.ErrorIs(t, err, io.EOF)
}

func happened(t *testing.T, r *wire.Rule) {
	t.Helper()
	synctest.Wait()
	select {
	case <-r.Happened():
	default:
		require.FailNow(t, "the rule has not been applied")
	}
}

func count(m *miniredis.Miniredis, key string) string {
	synctest.Wait()
	v, _ := m.Get(key)
	return v
}

var incr = wire.Match{Name: "INCR"}

func TestPass(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		c := dial(t, w)
		assert.Equal(t, "OK", c.do(t, "SET", "k", "a\x00\r\nb"))
		assert.Equal(t, "a\x00\r\nb", c.do(t, "GET", "k"))
		assert.Nil(t, c.do(t, "GET", "absent"))
		_, isMap := c.do(t, "HELLO", "3").([]any)
		assert.True(t, isMap)
		assert.Equal(t, 2, w.Count(wire.Match{Name: "get"}))
		assert.Equal(t, 1, w.Count(wire.Match{Arg: "abs"}))
		assert.Equal(t, 1, w.Open())
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Equal(t, 0, w.Open())
		for _, r := range w.Requests(wire.Match{}) {
			assert.Equal(t, 1, r.Forwarded, r)
			assert.True(t, r.Replied && r.Passed, r)
			assert.Equal(t, 1, r.Conn)
		}
	})
}

func TestMatchOccurrence(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		r := w.On(wire.Match{Name: "echo", Arg: "b", Skip: 1, Times: 2}, wire.Answer("+wire\r\n"))
		c := dial(t, w)
		var got []any
		for _, arg := range []string{"b1", "a", "b2", "b3", "b4"} {
			got = append(got, c.do(t, "ECHO", arg))
		}
		assert.Equal(t, []any{"b1", "a", "wire", "wire", "b4"}, got)
		assert.Equal(t, 2, r.Applied())
		always := w.On(wire.Match{Times: -1}, wire.Answer("+wire\r\n"))
		assert.Equal(t, "wire", c.do(t, "ECHO", "x"))
		assert.Equal(t, "wire", c.do(t, "ECHO", "y"))
		always.Remove()
		assert.Equal(t, "z", c.do(t, "ECHO", "z"))
	})
}

func TestCutRequest(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		r := w.On(incr, wire.CutRequest)
		c := dial(t, w)
		c.send(t, "INCR", "n")
		c.cut(t)
		happened(t, r)
		assert.Empty(t, count(m, "n"))
		assert.Equal(t, 0, w.Requests(incr)[0].Forwarded)
	})
}

func TestCutReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		r := w.On(incr, wire.CutReply)
		c := dial(t, w)
		c.send(t, "ECHO", "before")
		c.send(t, "INCR", "n")
		v, err := c.read()
		require.NoError(t, err)
		assert.Equal(t, "before", v, "replies to earlier requests still arrive")
		c.cut(t)
		happened(t, r)
		assert.Equal(t, "1", count(m, "n"))
		req := w.Requests(incr)[0]
		assert.True(t, req.Replied && !req.Passed, req)
	})
}

func TestHalfReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		require.NoError(t, m.Set("s", "0123456789"))
		w.On(wire.Match{Name: "GET"}, wire.HalfReply)
		c := dial(t, w)
		c.send(t, "GET", "s")
		got, err := io.ReadAll(c)
		require.NoError(t, err)
		assert.Equal(t, "$10\r\n012", string(got))
	})
}

func TestSilence(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		w.On(incr, wire.Silence)
		c := dial(t, w)
		c.send(t, "INCR", "n")
		c.send(t, "INCR", "n")
		c.silent(t)
		assert.Equal(t, "2", count(m, "n"), "what follows is executed too")
		assert.Equal(t, "x", dial(t, w).do(t, "ECHO", "x"), "other connections work")
		require.NoError(t, c.Close())
		synctest.Wait()
		assert.Equal(t, 1, w.Open())
	})
}

func TestBlackHole(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		w.On(incr, wire.BlackHole)
		c := dial(t, w)
		c.send(t, "INCR", "n")
		c.send(t, "INCR", "n")
		c.silent(t)
		assert.Empty(t, count(m, "n"))
	})
}

func TestMute(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		c := dial(t, w)
		assert.Equal(t, int64(1), c.do(t, "INCR", "n"))
		w.Mute()
		c.send(t, "INCR", "n")
		c.silent(t)
		assert.Equal(t, int64(2), dial(t, w).do(t, "INCR", "n"))
		m.Close() // even the server's hanging up does not come through
		c.silent(t)
	})
}

func TestHoldRequestIsDeliveredLate(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		r := w.On(incr, wire.HoldRequest)
		c := dial(t, w)
		c.send(t, "INCR", "n")
		happened(t, r)
		c.silent(t)
		require.NoError(t, c.Close())
		assert.Empty(t, count(m, "n"))
		r.Release()
		assert.Equal(t, "1", count(m, "n"), "although its client is gone")
	})
}

func TestHoldReply(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		r := w.On(incr, wire.HoldReply)
		c := dial(t, w)
		c.send(t, "INCR", "n")
		c.send(t, "ECHO", "behind")
		happened(t, r)
		assert.Equal(t, "1", count(m, "n"))
		c.silent(t)
		r.Release()
		r.Release()
		for _, want := range []any{int64(1), "behind"} {
			v, err := c.read()
			require.NoError(t, err)
			assert.Equal(t, want, v)
		}
	})
}

func TestDelay(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		w.On(incr, wire.Delay(time.Minute))
		c := dial(t, w)
		start := time.Now()
		assert.Equal(t, int64(1), c.do(t, "INCR", "n"))
		assert.Equal(t, time.Minute, time.Since(start))
	})
}

func TestDuplicate(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		w.On(incr, wire.Duplicate)
		c := dial(t, w)
		assert.Equal(t, int64(1), c.do(t, "INCR", "n"))
		assert.Equal(t, "x", c.do(t, "ECHO", "x"), "the second reply is not taken for this one")
		assert.Equal(t, "2", count(m, "n"))
		assert.Equal(t, 2, w.Requests(incr)[0].Forwarded)
	})
}

func TestAnswerKeepsTheOrder(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		w.On(incr, wire.Answer("-LOADING not yet\r\n"))
		c := dial(t, w)
		c.send(t, "ECHO", "1")
		c.send(t, "INCR", "n")
		c.send(t, "ECHO", "3")
		for _, want := range []any{"1", driver.NewServerError("LOADING not yet"), "3"} {
			v, err := c.read()
			require.NoError(t, err)
			assert.Equal(t, want, v)
		}
		assert.Empty(t, count(m, "n"))
	})
}

func TestPartition(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		waiting, gone := dial(t, w), dial(t, w)
		w.Partition()
		waiting.send(t, "INCR", "n")
		gone.send(t, "INCR", "n")
		waiting.silent(t)
		require.NoError(t, gone.Close())
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := w.Dial(ctx, "tcp", "server:6379")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Empty(t, count(m, "n"))

		w.Heal()
		v, err := waiting.read()
		require.NoError(t, err)
		assert.NotNil(t, v)
		assert.Equal(t, "2", count(m, "n"), "what was sent arrives, also from a client that is gone")

		w.Partition()
		waiting.send(t, "INCR", "n")
		synctest.Wait()
		w.KillAll()
		w.Heal()
		waiting.cut(t)
		assert.Equal(t, "2", count(m, "n"), "KillAll loses what is under way")
	})
}

func TestPartitionOfOneDirection(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		noDials := func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := w.Dial(ctx, "tcp", "server:6379")
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		c := dial(t, w)
		late := w.On(incr, wire.HoldReply)
		c.send(t, "INCR", "n")
		happened(t, late)
		w.PartitionRequests()
		c.send(t, "INCR", "n")
		late.Release()
		v, err := c.read()
		require.NoError(t, err)
		assert.Equal(t, int64(1), v, "replies still arrive")
		assert.Equal(t, "1", count(m, "n"))
		noDials()
		w.Heal()
		v, err = c.read()
		require.NoError(t, err)
		assert.Equal(t, int64(2), v)

		w.PartitionReplies()
		c.send(t, "INCR", "n")
		assert.Equal(t, "3", count(m, "n"), "requests still arrive")
		c.silent(t)
		noDials()
		w.Heal()
		v, err = c.read()
		require.NoError(t, err)
		assert.Equal(t, int64(3), v)
	})
}

func TestForget(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		c := dial(t, w)
		c.do(t, "ECHO", "a")
		w.Forget()
		assert.Equal(t, "b", c.do(t, "ECHO", "b"))
		assert.Empty(t, w.Requests(wire.Match{}))
		r := w.On(wire.Match{Name: "ECHO"}, wire.CutReply)
		c.send(t, "ECHO", "c")
		c.cut(t)
		assert.Equal(t, 1, r.Applied(), "rules work all the same")
	})
}

func TestRefuseAndHang(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		c := dial(t, w)
		w.Refuse(true)
		_, err := w.Dial(t.Context(), "tcp", "server:6379")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		assert.Equal(t, "dial", op.Op)
		assert.Equal(t, "x", c.do(t, "ECHO", "x"), "open connections are not touched")
		w.Refuse(false)

		w.HangDials()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err = w.Dial(ctx, "tcp", "server:6379")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		dialed := make(chan *client)
		go func() { dialed <- dial(t, w) }()
		synctest.Wait()
		w.ResumeDials()
		assert.Equal(t, "x", (<-dialed).do(t, "ECHO", "x"))
		assert.Equal(t, 4, w.Dials())
	})
}

// A dial that is under way when all connections are killed, or dials refused, comes too late.
func TestDialBesideFault(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*wire.Wire)
		want  error
	}{
		"refused": {func(w *wire.Wire) { w.Refuse(true); w.KillAll() }, syscall.ECONNREFUSED},
		"killed":  {(*wire.Wire).KillAll, syscall.ECONNRESET},
		"reset":   {(*wire.Wire).Reset, syscall.ECONNRESET},
	} {
		t.Run(name, func(t *testing.T) {
			var w *wire.Wire
			w = wire.New(func(context.Context) (net.Conn, error) {
				c.fault(w)
				ours, _ := net.Pipe()
				return ours, nil
			})
			defer w.Close()
			_, err := w.Dial(t.Context(), "tcp", "server:6379")
			require.ErrorIs(t, err, c.want)
			assert.Zero(t, w.Open())
		})
	}
}

func TestIsOpen(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		c := dial(t, w)
		assert.Equal(t, "PONG", c.do(t, "PING"))
		assert.True(t, w.IsOpen(1))
		assert.False(t, w.IsOpen(2))
		w.KillAll()
		synctest.Wait()
		assert.False(t, w.IsOpen(1))
	})
}

func TestCloseReleasesEverything(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, _ *miniredis.Miniredis) {
		c := dial(t, w)
		w.On(wire.Match{Arg: "reply"}, wire.HoldReply)
		w.On(wire.Match{Arg: "request"}, wire.HoldRequest)
		w.On(wire.Match{Arg: "late"}, wire.Delay(time.Hour))
		c.send(t, "ECHO", "late")
		c.send(t, "ECHO", "reply")
		c.send(t, "ECHO", "request")
		w.HangDials()
		failed := make(chan error)
		go func() {
			_, err := w.Dial(context.Background(), "tcp", "server:6379")
			failed <- err
		}()
		synctest.Wait()
		w.Partition()
		require.NoError(t, w.Close())
		require.NoError(t, w.Close())
		require.ErrorIs(t, <-failed, wire.ErrClosed)
		c.cut(t)
		_, err := w.Dial(t.Context(), "tcp", "server:6379")
		require.ErrorIs(t, err, wire.ErrClosed)
	})
}

// Acknowledgements, messages and PONGs are told apart in RESP2 and RESP3.
func TestPubSub(t *testing.T) {
	for _, proto := range []string{"2", "3"} {
		t.Run("RESP"+proto, func(t *testing.T) {
			bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
				c := dial(t, w)
				c.do(t, "HELLO", proto)
				c.send(t, "SUBSCRIBE", "a", "b")
				synctest.Wait()
				assert.Equal(t, 1, m.Publish("a", "message in between"))
				synctest.Wait()
				c.send(t, "PING")
				c.send(t, "UNSUBSCRIBE", "a", "b")
				seen := map[string]int{}
				for range 6 {
					v, err := c.read()
					require.NoError(t, err)
					if list, ok := v.([]any); ok {
						seen[list[0].(string)]++
					} else {
						seen[v.(string)]++
					}
				}
				assert.Equal(t, 2, seen["subscribe"])
				assert.Equal(t, 2, seen["unsubscribe"])
				assert.Equal(t, 1, seen["message"])
				assert.Equal(t, 1, seen["pong"])
				assert.Equal(t, "x", c.do(t, "ECHO", "x"))
				for _, r := range w.Requests(wire.Match{}) {
					assert.True(t, r.Passed, r)
				}
			})
		})
	}
}

func TestHoldSubscribe(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		r := w.On(wire.Match{Name: "SUBSCRIBE", Arg: "b"}, wire.HoldReply)
		c := dial(t, w)
		assert.Equal(t, []any{"subscribe", "a", int64(1)}, c.do(t, "SUBSCRIBE", "a"))
		c.send(t, "SUBSCRIBE", "b")
		happened(t, r)
		m.Publish("a", "behind the acknowledgement")
		c.silent(t)
		r.Release()
		v, err := c.read()
		require.NoError(t, err)
		assert.Equal(t, []any{"subscribe", "b", int64(2)}, v)
		v, err = c.read()
		require.NoError(t, err)
		assert.Equal(t, []any{"message", "a", "behind the acknowledgement"}, v)
	})
}

func TestHoldLast(t *testing.T) {
	bubble(t, func(t *testing.T, w *wire.Wire, m *miniredis.Miniredis) {
		r := w.On(wire.Match{Name: "SUBSCRIBE", Arg: "b"}, wire.HoldLast)
		c := dial(t, w)
		assert.Equal(t, []any{"subscribe", "a", int64(1)}, c.do(t, "SUBSCRIBE", "a", "b"))
		happened(t, r)
		c.silent(t)
		r.Release()
		v, err := c.read()
		require.NoError(t, err)
		assert.Equal(t, []any{"subscribe", "b", int64(2)}, v)
		assert.Equal(t, []any{"subscribe", "c", int64(3)}, c.do(t, "SUBSCRIBE", "c"))

		// A reply in one part is held as a whole, and so is a refusal.
		for _, args := range [][]string{{"SUBSCRIBE", "d"}, {"SUBSCRIBE"}} {
			r = w.On(wire.Match{Name: "SUBSCRIBE"}, wire.HoldLast)
			c.send(t, args...)
			happened(t, r)
			c.silent(t)
			r.Release()
			_, err = c.read()
			require.NoError(t, err)
		}
	})
}

func TestNotTheProtocol(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		defer m.Close()
		w := wire.New(func(context.Context) (net.Conn, error) { return m.Dial() })
		defer w.Close()
		c := dial(t, w)
		_, err := c.Write([]byte("GET / HTTP/1.1\r\n"))
		require.NoError(t, err)
		c.cut(t)
		synctest.Wait()
		require.Len(t, w.Broken(), 1)
		assert.Contains(t, w.Broken()[0], "the client")
	})
}

// Through TCP: what differs is how dials are refused and how a late request ends.
func TestListen(t *testing.T) {
	m := miniredis.RunT(t)
	w := wire.New(wire.TCP(m.Addr()))
	defer w.Close()
	addr, err := w.Listen()
	require.NoError(t, err)
	again, err := w.Listen()
	require.NoError(t, err)
	require.Equal(t, addr, again)
	open := func() *client {
		nc, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		return &client{nc, bufio.NewReader(nc)}
	}
	c := open()
	assert.Equal(t, "x", c.do(t, "ECHO", "x"))

	w.Refuse(true)
	_, err = net.Dial("tcp", addr)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	assert.Equal(t, "x", c.do(t, "ECHO", "x"))
	if runtime.GOOS != "windows" {
		_, err = net.Listen("tcp", addr)
		require.ErrorIs(t, err, syscall.EADDRINUSE, "nobody else is given the port")
	}
	w.Refuse(false)

	r := w.On(incr, wire.HoldRequest)
	late := open()
	late.send(t, "INCR", "n")
	<-r.Happened()
	require.NoError(t, late.Close())
	r.Release()
	assert.Eventually(t, func() bool { v, _ := m.Get("n"); return v == "1" }, 10*time.Second, time.Millisecond)

	w.Reset()
	_, err = c.read()
	require.ErrorIs(t, err, syscall.ECONNRESET)
	c = open()
	assert.Equal(t, "x", c.do(t, "ECHO", "x"))
	w.KillAll()
	_, err = c.read()
	require.Error(t, err)
	require.NoError(t, w.Close())
	_, err = net.Dial("tcp", addr)
	require.Error(t, err)
	_, err = w.Listen()
	require.ErrorIs(t, err, wire.ErrClosed)
}
