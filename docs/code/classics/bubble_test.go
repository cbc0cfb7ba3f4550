package classics

import (
	"context"
	"io"
	"log"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) {
	logging.Disable()
	log.SetOutput(io.Discard)
	goleak.VerifyTestMain(m)
}

const ttl = 10 * time.Second

// A server is an embedded one in a bubble in which time passes at once.
type server struct{ *miniredis.Miniredis }

// bubble runs f with a server of its own.
func bubble(t *testing.T, f func(t *testing.T, s server)) {
	t.Helper()
	for range 2 {
		runtime.GC() // go-redis keeps timers in a sync.Pool, which belong to an earlier bubble
	}
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis' goroutines end after a second
		f(t, newServer(t))
	})
}

func newServer(t *testing.T) server {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	t.Cleanup(m.Close)
	return server{m}
}

// A process has a line of its own to the server.
type process struct {
	*redis.Client
	line *wire.Wire
}

func (s server) process(t *testing.T) process {
	line := wire.New(func(context.Context) (net.Conn, error) { return s.Dial() })
	t.Cleanup(func() { require.NoError(t, line.Close()) })
	rdb := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", Dialer: line.Dial,
		MaxRetries: -1, DialerRetries: 1, ReadTimeout: -1,
	})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	return process{rdb, line}
}

// resending returns a client with go-redis' own settings, which sends a command again
// whose reply was lost, and its line. They are not in a bubble: over a pipe go-redis
// does not recognize the loss.
func resending(t *testing.T) (*miniredis.Miniredis, *redis.Client, *wire.Wire) {
	server := miniredis.RunT(t)
	line := wire.New(wire.TCP(server.Addr()))
	t.Cleanup(func() { require.NoError(t, line.Close()) })
	addr, err := line.Listen()
	require.NoError(t, err)
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	return server, rdb, line
}

// locks returns the process's client for golocker's locks.
func (p process) locks(t *testing.T, opts ...locker.ClientOption) *locker.Client {
	c, err := locker.New(goredis.Wrap(p.Client), append([]locker.ClientOption{locker.TTL(ttl)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // some have lost their server
	return c
}

func mustTryLock(t *testing.T, m *locker.Mutex) *locker.Lease {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	require.NoError(t, err)
	return lease
}
