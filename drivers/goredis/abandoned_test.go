package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// A command whose caller has gone while go-redis was still connecting is never
// sent: a lock that it took would be nobody's.
func TestWrapAbandonedIsNotSent(t *testing.T) {
	for name, use := range map[string]func(context.Context, driver.Conn) error{
		"Do": func(ctx context.Context, conn driver.Conn) error {
			_, err := conn.Do(ctx, on("SET", "k", "v"))
			return err
		},
		"DoBatch": func(ctx context.Context, conn driver.Conn) error {
			return conn.(driver.Batcher).DoBatch(ctx, []driver.Command{on("SET", "k", "v"), on("SET", "k", "w")})[0].Err
		},
	} {
		for _, end := range []string{"cancel", "Close"} {
			t.Run(name+" "+end, func(t *testing.T) {
				server := servertest.Single(t)
				w := newWire(t, server.Addr)
				client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial, PoolSize: 1, ReadTimeout: time.Minute})
				defer client.Close()
				conn := wrap(t, client)
				held := w.On(wire.Match{Name: "HELLO"}, wire.HoldReply)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				result := make(chan error)
				go func() { result <- use(ctx, conn) }()
				<-held.Happened()
				if end == "Close" {
					require.NoError(t, conn.Close())
					assert.ErrorIs(t, <-result, driver.ErrClosed)
				} else {
					cancel()
					assert.ErrorIs(t, <-result, context.Canceled)
				}
				held.Release()

				// The only place in the pool is free when the command is done with.
				require.NoError(t, client.Ping(soon(t)).Err())
				assert.Zero(t, w.Count(wire.Match{Name: "SET"}))
				assert.Zero(t, client.Exists(soon(t), "k").Val())
			})
		}
	}
}
