package grafana

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockprom"
)

// A workload is two clients that do everything that a metric counts, on a real server that
// is set up in a dangerous way.
type workload struct {
	metrics *lockprom.Metrics
	server  *servertest.Server
	clients [2]*locker.Client
}

func newWorkload(t *testing.T) *workload {
	t.Helper()
	w := &workload{metrics: lockprom.New(), server: servertest.Single(t)}
	_, err := w.server.Do("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	require.NoError(t, err)
	for i := range w.clients {
		rdb := redis.NewClient(&redis.Options{Addr: w.server.Addr})
		w.clients[i], err = locker.New(goredis.Wrap(rdb), locker.Observe(w.metrics.Observer()), locker.TTL(time.Second))
		require.NoError(t, err)
		t.Cleanup(func() { w.clients[i].Close(); rdb.Close() })
	}
	return w
}

// start has everything done again and again until ctx ends. What it returns is closed at
// the end.
func (w *workload) start(ctx context.Context) <-chan struct{} {
	var wg sync.WaitGroup
	again := func(what func(context.Context)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				what(ctx)
			}
		})
	}
	for _, c := range w.clients {
		for range 2 {
			again(func(ctx context.Context) { hold(ctx, c.Mutex("contended"), 5*time.Millisecond) })
		}
		again(func(ctx context.Context) { hold(ctx, c.Mutex("renewed"), 700*time.Millisecond) })
		again(func(ctx context.Context) { hold(ctx, c.Mutex("shared", locker.ForReading()), 10*time.Millisecond) })
	}
	n := 0
	again(func(ctx context.Context) { n++; w.trouble(ctx, fmt.Sprint("trouble ", n)) })
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	return done
}

func hold(ctx context.Context, m *locker.Mutex, d time.Duration) {
	lease, err := m.Lock(ctx)
	if err != nil {
		return
	}
	pause(ctx, d)
	_ = lease.Unlock(context.WithoutCancel(ctx))
}

// trouble is a lock that is refused, loses its TTL, and then is lost.
func (w *workload) trouble(ctx context.Context, name string) {
	lease, err := w.clients[0].Mutex(name).Lock(ctx)
	if err != nil {
		return
	}
	_, _ = w.server.Do("PERSIST", name)
	_, _ = w.clients[1].Mutex(name).TryLock(ctx)
	_, _ = w.server.Do("CLIENT", "KILL", "TYPE", "pubsub")
	_, _ = w.server.Do("DEL", name)
	select {
	case <-lease.Context().Done():
	case <-ctx.Done():
	}
	_ = lease.Unlock(context.WithoutCancel(ctx))
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
