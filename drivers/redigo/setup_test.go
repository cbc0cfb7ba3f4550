package redigo_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A rig is a miniredis behind a wire, for a test in a bubble.
type rig struct {
	*wire.Wire
	t      *testing.T
	server *miniredis.Miniredis
	dial   driver.DialFunc // through the wire, unless a test changes it
}

// bubble runs f in a synctest bubble, with a rig.
func bubble(t *testing.T, f func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		server.ClockTTL(true)
		t.Cleanup(server.Close)
		w := wire.New(func(context.Context) (net.Conn, error) { return server.Dial() })
		t.Cleanup(func() { require.NoError(t, w.Close()) })
		f(t, &rig{Wire: w, t: t, server: server, dial: w.Dial})
	})
}

// bothWays runs f in a bubble for an opened and for a wrapped pool, which has
// no timeouts and no TestOnBorrow.
func bothWays(t *testing.T, f func(t *testing.T, r *rig, c driver.Conn)) {
	t.Helper()
	t.Run("Open", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) { f(t, r, r.open(driver.Config{})) })
	})
	t.Run("Wrap", func(t *testing.T) {
		bubble(t, func(t *testing.T, r *rig) { f(t, r, r.wrap(r.pool())) })
	})
}

// open opens a Conn on the miniredis.
func (r *rig) open(cfg driver.Config) driver.Conn {
	cfg.Addrs = []string{"10.0.0.1:6379"}
	cfg.Dial = r.dial
	return open(r.t, cfg)
}

// pool is an application's pool.
func (r *rig) pool() *redis.Pool {
	pool := &redis.Pool{
		MaxIdle: 8,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", "10.0.0.1:6379", redis.DialContextFunc(r.dial))
		},
	}
	r.t.Cleanup(func() { _ = pool.Close() })
	return pool
}

// poolOf is a pool of connections of the application's own make, each around one of redigo's.
func (r *rig) poolOf(around func(redis.ConnWithContext) redis.Conn) *redis.Pool {
	pool := r.pool()
	dial := pool.DialContext
	pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
		rc, err := dial(ctx)
		if err != nil {
			return nil, err
		}
		return around(rc.(redis.ConnWithContext)), nil
	}
	return pool
}

func (r *rig) wrap(pool *redis.Pool) driver.Conn { return connect(r.t, redigo.Wrap(pool)) }

func open(t *testing.T, cfg driver.Config) driver.Conn {
	t.Helper()
	connector, err := redigo.Driver{}.OpenConnector(cfg)
	require.NoError(t, err)
	return connect(t, connector)
}

func connect(t *testing.T, connector driver.Connector) driver.Conn {
	t.Helper()
	c, err := connector.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func command(args ...string) driver.Command { return driver.Command{Args: args} }

// occupy has n connections of c's pool in use at once.
func (r *rig) occupy(c driver.Conn, n int) {
	r.t.Helper()
	rule := r.On(wire.Match{Name: "ECHO", Times: n}, wire.HoldReply)
	var calls sync.WaitGroup
	for range n {
		calls.Go(func() {
			_, err := c.Do(r.t.Context(), command("ECHO", "x"))
			assert.NoError(r.t, err)
		})
	}
	synctest.Wait()
	rule.Release()
	calls.Wait()
	require.Equal(r.t, n, r.Open())
}

// do fails the test unless the command succeeds.
func do(t *testing.T, c driver.Conn, args ...string) driver.Value {
	t.Helper()
	v, err := c.Do(t.Context(), command(args...))
	require.NoError(t, err)
	return v
}
