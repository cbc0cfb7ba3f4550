package testinglocks

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

// bubble runs f with a server, where time passes as soon as everybody waits for it.
func bubble(t *testing.T, f func(t *testing.T, server *miniredis.Miniredis)) {
	runtime.GC() // go-redis keeps timers in a sync.Pool, and those of one
	runtime.GC() // bubble cannot be used in another; this empties the pool
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis' goroutines end
		server := miniredis.NewMiniRedis()                // no Start: it listens nowhere
		server.ClockTTL(true)                             // keys expire as time passes
		t.Cleanup(server.Close)
		f(t, server)
	})
}

// locksIn is newLocks for a bubble.
func locksIn(t *testing.T, server *miniredis.Miniredis, opts ...locker.ClientOption) *locker.Client {
	rdb := redis.NewClient(&redis.Options{
		Addr:   "127.0.0.1:6379", // not looked up
		Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
	})
	t.Cleanup(func() { rdb.Close() })
	locks, err := locker.New(goredis.Wrap(rdb), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { locks.Close() })
	return locks
}

func TestStopsWhenTheLockIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis) {
		importer := &Importer{
			Locks: locksIn(t, server),
			Fetch: func(ctx context.Context) ([]string, error) {
				server.FlushAll() // whatever happened to the server
				<-ctx.Done()      // at the next renewal, a third of the TTL later at most
				return nil, context.Cause(ctx)
			},
		}
		begun := time.Now()
		assert.ErrorIs(t, importer.Run(t.Context()), locker.ErrLost)
		assert.LessOrEqual(t, time.Since(begun), locker.DefaultTTL/2)
	})
}

func TestHostThatCrashed(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis) {
		_, err := locksIn(t, server, locker.NoRenewal()).Mutex("import", locker.Fenced()).TryLock(t.Context())
		require.NoError(t, err)
		importer := &Importer{
			Locks: locksIn(t, server),
			Fetch: func(context.Context) ([]string, error) { return nil, nil },
			Store: func(context.Context, []string, locker.Token) error { return nil },
		}
		assert.ErrorIs(t, importer.Run(t.Context()), ErrBusy)
		time.Sleep(locker.DefaultTTL) // takes no time
		assert.NoError(t, importer.Run(t.Context()))
	})
}

func TestLongImportKeepsTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, server *miniredis.Miniredis) {
		importer := &Importer{
			Locks: locksIn(t, server),
			Fetch: func(ctx context.Context) ([]string, error) { time.Sleep(time.Hour); return nil, ctx.Err() },
			Store: func(context.Context, []string, locker.Token) error { return nil },
		}
		done := make(chan error, 1)
		go func() { done <- importer.Run(t.Context()) }()
		synctest.Wait() // Fetch sleeps
		other := &Importer{Locks: locksIn(t, server)}
		for range 10 {
			assert.ErrorIs(t, other.Run(t.Context()), ErrBusy)
			time.Sleep(5 * time.Minute)
		}
		assert.NoError(t, <-done)
	})
}
