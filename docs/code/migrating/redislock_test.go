package migrating

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
)

// Redislock bounds a wait whose ctx has no deadline by itself. Who comes from it to a Do that waits
// for ever would pile up what used to give up.
func TestAWaitOfRedislockIsBoundedAndSoIsOurs(t *testing.T) {
	for range 2 {
		runtime.GC() // go-redis keeps timers in a sync.Pool, which belong to an earlier bubble
	}
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis' goroutines end after a second
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		t.Cleanup(server.Close)
		rdb := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:6379",
			Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		})
		t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
		client := newClient(t, rdb)
		held, err := newClient(t, rdb).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, held.Unlock(context.Background())) })
		work := func(context.Context) error { panic("the lock is held") }
		ends := func(why error, lock func(ctx context.Context) error) {
			t.Helper()
			begun := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			defer time.AfterFunc(time.Hour, cancel).Stop()
			assert.ErrorIs(t, lock(ctx), why)
			assert.Equal(t, 30*time.Second, time.Since(begun))
		}
		ends(context.DeadlineExceeded, func(ctx context.Context) error { return Redislock(ctx, redislock.New(rdb), "k", work) })
		ends(locker.ErrWaitTimeout, func(ctx context.Context) error { return NotRedislock(ctx, client, "k", work) })
	})
}
