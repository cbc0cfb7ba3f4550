package rwlock_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// A deployment is an embedded server in a bubble in which time passes at once.
type deployment struct {
	*miniredis.Miniredis
	dials *atomic.Int32
}

func bubble(t *testing.T, f func(t *testing.T, d deployment)) {
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		m.ClockTTL(true)
		t.Cleanup(m.Close)
		f(t, deployment{m, new(atomic.Int32)})
	})
}

// client returns a lock client of its own, as another process would have it.
func (d deployment) client(t *testing.T, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379",
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			d.dials.Add(1)
			return d.Dial()
		},
	})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	c, err := locker.New(goredis.Wrap(rdb), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// waiting calls lock in the background, and returns once it waits, or is done.
func waiting(t *testing.T, lock func(ctx context.Context) (*locker.Lease, error)) <-chan *locker.Lease {
	got := make(chan *locker.Lease, 1)
	go func() {
		lease, err := lock(t.Context())
		assert.NoError(t, err)
		got <- lease
	}()
	synctest.Wait()
	return got
}

// granted returns the lease that a call in the background has got, nil if it waits.
func granted(got <-chan *locker.Lease) *locker.Lease {
	synctest.Wait()
	select {
	case lease := <-got:
		return lease
	default:
		return nil
	}
}

func unlock(t *testing.T, leases ...*locker.Lease) {
	t.Helper()
	for _, lease := range leases {
		require.NoError(t, lease.Unlock(t.Context()))
	}
}
