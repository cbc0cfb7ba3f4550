package goredis_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// Redis Cloud and Redis Enterprise tell clients that speak RESP3 of a connection that they are about to close,
// ahead of any reply. go-redis connects elsewhere then: once a command has its reply, and a subscription at once.
func TestWrapServerThatIsMoving(t *testing.T) {
	server := servertest.Single(t)
	dials := map[string]func(context.Context) context.Context{
		"dialer":                   func(ctx context.Context) context.Context { return ctx },
		"dialer that heeds no ctx": context.WithoutCancel, // as that of go-redis for TLS
	}
	for name, dial := range dials {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, server.Addr)
			w.On(wire.Match{Name: "CLIENT", Arg: "maint_notifications", Times: -1}, wire.Answer("+OK\r\n"))
			client := redis.NewClient(&redis.Options{
				Addr: server.Addr,
				Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
					return w.Dial(dial(ctx), network, addr)
				},
				MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeEnabled},
			})
			defer client.Close()
			conn := wrap(t, client)
			seq := 0
			moving := func() string {
				seq++
				return fmt.Sprintf(">4\r\n+MOVING\r\n:%d\r\n:30\r\n$%d\r\n%s\r\n", seq, len(server.Addr), server.Addr)
			}

			do(t, conn, "PING")
			before := w.Dials()
			w.On(wire.Match{Name: "INCR"}, wire.Answer(moving()+":7\r\n"))
			v, err := conn.Do(soon(t), on("INCR", "k"))
			require.NoError(t, err)
			assert.Equal(t, int64(7), v)
			require.Eventually(t, func() bool { return w.Dials() > before }, 10*time.Second, time.Millisecond, "go-redis has not heard of it")
			assert.Equal(t, "x", do(t, conn, "ECHO", "x"))

			w.On(wire.Match{Name: "INCR"}, wire.Answer(moving()+":8\r\n"))
			echo := func(text string) driver.Command { return driver.Command{Args: []string{"ECHO", text}} }
			assert.Equal(t, []driver.Result{{Value: "a"}, {Value: int64(8)}, {Value: "b"}},
				conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{echo("a"), on("INCR", "k"), echo("b")}))
			assert.Equal(t, []driver.Result{{Value: "c"}, {Value: "d"}},
				conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{echo("c"), echo("d")}))

			sub := subscribe(t, conn, "c")
			hears(t, sub, conn, "c", "1")
			w.On(wire.Match{Name: "SUBSCRIBE", Arg: "d"}, wire.Answer(moving()+">3\r\n$9\r\nsubscribe\r\n$1\r\nd\r\n:2\r\n"))
			require.NoError(t, sub.Add(soon(t), "d"))
			_, err = sub.Receive(soon(t))
			require.ErrorIs(t, err, driver.ErrGap)
			hears(t, sub, conn, "c", "2")
			hears(t, sub, conn, "d", "3")
		})
	}
}
