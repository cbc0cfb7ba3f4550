package rueidis_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// connectors are the ways to a Conn on which pub/sub has to be the same.
func connectors() map[string]func(*testing.T, *wire.Wire) driver.Connector {
	wrap := func(change ...func(*rue.ClientOption)) func(*testing.T, *wire.Wire) driver.Connector {
		return func(t *testing.T, w *wire.Wire) driver.Connector {
			return rueidis.Wrap(client(t, w, change...))
		}
	}
	return map[string]func(*testing.T, *wire.Wire) driver.Connector{
		"opened":        func(t *testing.T, w *wire.Wire) driver.Connector { return connector(t, wired(w)) },
		"wrapped":       wrap(),
		"RESP2":         wrap(func(o *rue.ClientOption) { o.AlwaysRESP2 = true }),
		"no pipelining": wrap(func(o *rue.ClientOption) { o.DisableAutoPipelining = true }),
		"long timeouts": wrap(func(o *rue.ClientOption) {
			o.Dialer = net.Dialer{KeepAlive: time.Hour}
			o.ConnWriteTimeout = time.Hour
		}),
		"no timeouts, RESP2": wrap(func(o *rue.ClientOption) {
			o.AlwaysRESP2 = true
			o.Dialer = net.Dialer{KeepAlive: -1}
			o.ConnWriteTimeout = -1
		}),
	}
}

// What is published after Add has returned is received, until Remove.
func TestSubscribe(t *testing.T) {
	for name, c := range connectors() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := connect(t, c(t, w))
				sub := subscribe(t, conn, "a", "b")
				require.NoError(t, sub.Add(t.Context(), "c"))
				for _, channel := range []string{"a", "b", "c"} {
					require.EqualValues(t, 1, do(t, conn, "PUBLISH", channel, "\x00\r\n"+channel))
				}
				for _, channel := range []string{"a", "b", "c"} {
					m, err := sub.Receive(t.Context())
					require.NoError(t, err)
					assert.Equal(t, driver.Message{Channel: channel, Payload: "\x00\r\n" + channel}, m)
				}
				require.NoError(t, sub.Remove(t.Context(), "a", "never added"))
				require.EqualValues(t, 0, do(t, conn, "PUBLISH", "a", "gone"))
				require.EqualValues(t, 1, do(t, conn, "PUBLISH", "b", "here"))
				m, err := sub.Receive(t.Context())
				require.NoError(t, err)
				assert.Equal(t, driver.Message{Channel: "b", Payload: "here"}, m)
			})
		})
	}
}

// A connection that breaks is replaced at once, and not when it is asked whether it lives.
func TestSubscribeBreaks(t *testing.T) {
	for name, c := range connectors() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				sub := subscribe(t, connect(t, c(t, w)), "ch")
				start := time.Now()
				w.KillAll()
				_, err := sub.Receive(t.Context())
				require.ErrorIs(t, err, driver.ErrGap)
				assert.Less(t, time.Since(start), pubsub.MaxPause)
			})
		})
	}
}

// A connection that swallows everything is replaced, whatever timeouts the
// application's client has.
func TestSubscribeBlackHole(t *testing.T) {
	for name, c := range connectors() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				conn := connect(t, c(t, w))
				sub := subscribe(t, conn, "ch")
				time.Sleep(time.Minute)
				w.Mute()
				start := time.Now()
				_, err := sub.Receive(t.Context())
				require.ErrorIs(t, err, driver.ErrGap)
				assert.LessOrEqual(t, time.Since(start), 15*time.Second)

				do(t, connect(t, connector(t, wired(w))), "PUBLISH", "ch", "again")
				m, err := sub.Receive(t.Context())
				require.NoError(t, err)
				assert.Equal(t, driver.Message{Channel: "ch", Payload: "again"}, m)
			})
		})
	}
}

// A subscription that is alive and idle is left alone, but asked whether it is, on
// the connection that the messages come by.
func TestSubscribeIdle(t *testing.T) {
	for name, c := range connectors() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				sub := subscribe(t, connect(t, c(t, w)), "ch")
				dials := w.Dials()
				_, err := sub.Receive(within(t, 10*time.Minute))
				require.NotErrorIs(t, err, driver.ErrGap)
				assert.Equal(t, dials, w.Dials())

				subscribed := w.Requests(wire.Match{Name: "SUBSCRIBE", Arg: "ch"})
				require.Len(t, subscribed, 1)
				asked := 0
				for _, r := range w.Requests(wire.Match{Name: "SUBSCRIBE", Arg: "probe"}) {
					if r.Conn == subscribed[0].Conn {
						asked++
					}
				}
				assert.GreaterOrEqual(t, asked, 100)
			})
		})
	}
}

// Nobody calls Receive: the client's reader, which the application shares, must
// not wait for it.
func TestSubscribeSlowReceiver(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w)))
		sub := subscribe(t, conn, "ch")
		for i := range 3000 {
			require.EqualValues(t, 1, do(t, conn, "PUBLISH", "ch", fmt.Sprint(i)))
		}
		require.NoError(t, sub.Add(within(t, time.Minute), "another"))
		gap := false
		for range 3001 {
			if _, err := sub.Receive(t.Context()); err != nil {
				require.ErrorIs(t, err, driver.ErrGap)
				gap = true
				break
			}
		}
		assert.True(t, gap, "messages were dropped without a gap")
	})
}

// A server that refuses is asked no less politely; the refusal is the error.
func TestSubscribeRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		sub := subscribe(t, conn, "mine")
		const refusal = "NOPERM No permissions to access a channel"
		w.On(wire.Match{Name: "SUBSCRIBE", Arg: "theirs"}, wire.Answer("-"+refusal+"\r\n"))
		assert.Equal(t, error(driver.NewServerError(refusal)), sub.Add(t.Context(), "theirs"))
		time.Sleep(pubsub.PingAfter + time.Second) // a refusal that comes after it is not taken for the PING's
		w.On(wire.Match{Name: "SUBSCRIBE", Arg: "theirs"}, wire.Answer("-"+refusal+"\r\n"))
		assert.Equal(t, error(driver.NewServerError(refusal)), sub.Add(within(t, time.Second), "theirs"))
		require.EqualValues(t, 1, do(t, conn, "PUBLISH", "mine", "m"))
		m, err := sub.Receive(t.Context())
		require.NoError(t, err)
		assert.Equal(t, driver.Message{Channel: "mine", Payload: "m"}, m)
	})
}

// Add is prompt when the connection cannot be made, though Dedicate has no ctx.
func TestSubscribeCtx(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := open(t, wired(w))
		sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		w.HangDials()
		start := time.Now()
		err = sub.Add(within(t, 50*time.Millisecond), "ch")
		assert.Equal(t, 50*time.Millisecond, time.Since(start))
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		require.NoError(t, conn.Close())
		synctest.Wait()
		assert.Zero(t, w.Open())
		_, err = sub.Receive(t.Context())
		assert.ErrorIs(t, err, driver.ErrClosed)
	})
}

// Where rueidis speaks RESP2 it makes a second connection for messages, and asks no ctx.
func TestSubscribeCloseWhileTheSecondConnectionIsMade(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w, func(o *rue.ClientOption) {
			o.AlwaysRESP2 = true
			dial, dials := o.DialCtxFn, 0
			o.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, tls *tls.Config) (net.Conn, error) {
				if dials++; dials == 3 { // after that for commands, and the first of the subscription
					w.HangDials()
				}
				return dial(ctx, addr, d, tls)
			}
		})))
		do(t, conn, "PING")
		sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, sub.Add(within(t, 50*time.Millisecond), "ch"), context.DeadlineExceeded)
		require.Equal(t, 3, w.Dials())
		start := time.Now()
		require.NoError(t, sub.Close())
		assert.Zero(t, time.Since(start))
		w.ResumeDials()
		time.Sleep(5 * time.Second)
		assert.Equal(t, 1, w.Open(), "a connection is left")
	})
}
