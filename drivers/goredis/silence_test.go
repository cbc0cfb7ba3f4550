package goredis_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// idle is how many connections a pool has that were in use at the same time.
const idle = 16

// fill makes a pool have them.
func fill(t *testing.T, conn driver.Conn, w *wire.Wire) {
	t.Helper()
	before := w.Count(wire.Match{Name: "GET"})
	held := w.On(wire.Match{Name: "GET", Times: -1}, wire.HoldReply)
	var all sync.WaitGroup
	for range idle {
		all.Go(func() {
			_, err := conn.Do(soon(t), on("GET", "k"))
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return w.Count(wire.Match{Name: "GET"}) == before+idle }, 10*time.Second, time.Millisecond)
	held.Release()
	held.Remove()
	all.Wait()
	require.GreaterOrEqual(t, w.Open(), idle)
}

// failures returns how many calls failed until one did not, each within d.
func failures(t *testing.T, d time.Duration, call func(context.Context) error) int {
	t.Helper()
	for n := range idle + 1 {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		err := call(ctx)
		cancel()
		if err == nil {
			return n
		}
		unknown(t, err)
	}
	require.FailNow(t, "all calls fail")
	return 0
}

// A host that died behind its name, or a NAT that forgot its flows, leaves connections that are
// silently dead, while new ones work. They were tried one by one: with 16 of them a free lock was
// had after 21 seconds.
func TestSilentlyDeadConnectionsCostOneCall(t *testing.T) {
	for name, cfg := range map[string]driver.Config{
		"single":   {Addrs: []string{"127.0.0.1:1"}},
		"Cluster":  {Addrs: []string{"127.0.0.1:1"}, Mode: driver.ModeCluster},
		"Sentinel": {Addrs: []string{"127.0.0.1:3"}, Mode: driver.ModeSentinel, Master: "m"},
	} {
		for name, call := range map[string]func(driver.Conn) func(context.Context) error{
			name + "/Do": func(conn driver.Conn) func(context.Context) error {
				return func(ctx context.Context) error {
					_, err := conn.Do(ctx, on("SET", "k", "v"))
					return err
				}
			},
			name + "/DoBatch": func(conn driver.Conn) func(context.Context) error {
				return func(ctx context.Context) error {
					return conn.(driver.Batcher).DoBatch(ctx, []driver.Command{on("SET", "k", "v"), on("SET", "k", "v")})[1].Err
				}
			},
		} {
			t.Run(name, func(t *testing.T) {
				forgetTimers()
				synctest.Test(t, func(t *testing.T) {
					servers := newFakeCluster(t)
					servers.answersAsSentinel()
					line := servers.lines["127.0.0.1:1"]
					cfg := cfg
					cfg.Dial, cfg.PoolSize = servers.Dial, idle
					conn := open(t, cfg)
					fill(t, conn, line)
					line.Mute()
					assert.Equal(t, 1, failures(t, 2*time.Second, call(conn)))
					fill(t, conn, line)
				})
			})
		}
	}
}

// pooled returns a Conn with a pool of idle connections at the most, and its line.
func pooled(t *testing.T) (*wire.Wire, driver.Conn) {
	t.Helper()
	memory := miniredis.NewMiniRedis()
	t.Cleanup(memory.Close)
	w := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
	t.Cleanup(func() { _ = w.Close() })
	return w, open(t, driver.Config{Addrs: []string{"127.0.0.1:1"}, Dial: w.Dial, PoolSize: idle})
}

// Who gives up early drops no other connections, and after a late reply those that are idle
// are made again once.
func TestConnectionsOfAServerThatIsSlow(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		w, conn := pooled(t)
		fill(t, conn, w)
		require.Equal(t, idle, w.Dials())

		sub := subscribe(t, conn, "c")
		time.Sleep(time.Minute)
		hears(t, sub, conn, "c", "late")
		fill(t, conn, w)
		assert.Equal(t, idle+1, w.Dials(), "messages are never late")

		w.On(wire.Match{Name: "SET"}, wire.Delay(time.Minute))
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := conn.Do(ctx, on("SET", "k", "v"))
		unknown(t, err)
		fill(t, conn, w)
		assert.Equal(t, idle+2, w.Dials(), "after a call that was given up early")

		w.On(wire.Match{Name: "SET"}, wire.Delay(time.Second))
		_, err = conn.Do(t.Context(), on("SET", "k", "v"))
		require.NoError(t, err)
		for range 3 {
			fill(t, conn, w)
			assert.LessOrEqual(t, w.Dials(), 2*idle+1, "after a late reply")
		}
	})
}

// A server that is late with every reply has enough to do without new connections.
func TestConnectionsOfAServerThatIsAlwaysLate(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		w, conn := pooled(t)
		w.On(wire.Match{Name: "SET", Times: -1}, wire.Delay(600*time.Millisecond))
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 137 * time.Millisecond)
				for range 10 {
					_, err := conn.Do(t.Context(), on("SET", "k", "v"))
					assert.NoError(t, err)
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		all.Wait()
		assert.LessOrEqual(t, w.Dials(), 4)
	})
}

// fillTLS is fill where no wire can be.
func fillTLS(t *testing.T, conn driver.Conn, server *servertest.Server) {
	t.Helper()
	var all sync.WaitGroup
	for range idle {
		all.Go(func() {
			_, err := conn.Do(soon(t), on("BLPOP", "list", "0"))
			assert.NoError(t, err)
		})
	}
	require.NoError(t, servertest.Await(soon(t), func() error {
		return server.InfoSays("clients", fmt.Sprintf("blocked_clients:%d", idle))
	}))
	for range idle {
		_, err := server.Do("RPUSH", "list", "x")
		require.NoError(t, err)
	}
	all.Wait()
}

// A silenceable connection swallows everything once it is told to.
type silenceable struct {
	net.Conn
	silent atomic.Bool
}

func (c *silenceable) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.silent.Load() {
			return n, err
		}
	}
}

func (c *silenceable) Write(p []byte) (int, error) {
	if c.silent.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// Where no connection can be looked at, as here for its Dial, those that a server has closed cost no
// call each either.
func TestDeadConnectionsWithTLSCostOneCall(t *testing.T) {
	server := servertest.TLS(t)
	var mu sync.Mutex
	var dialed []*silenceable
	conn := open(t, driver.Config{
		Addrs: []string{server.Addr}, TLS: server.ServerOnly(), PoolSize: idle,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			raw, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			c := &silenceable{Conn: raw}
			dialed = append(dialed, c)
			return c, nil
		},
	})
	set := func(ctx context.Context) error {
		_, err := conn.Do(ctx, on("SET", "k", "v"))
		return err
	}
	for name, fault := range map[string]func(){
		"silent": func() {
			mu.Lock()
			defer mu.Unlock()
			for _, c := range dialed {
				c.silent.Store(true)
			}
		},
		"closed": server.Restart,
	} {
		fillTLS(t, conn, server.Server)
		fault()
		assert.LessOrEqual(t, failures(t, 2*time.Second, set), 1, name)
	}
}

// What the package comment recommends for a wrapped client: what has been idle for a while is not
// used, and the first call that gets no answer takes as long.
func TestWrapSilentlyDeadConnectionsCostFewCallsWithAShortIdleTime(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{
		Addr: server.Addr, Dialer: w.Dial, PoolSize: idle, ConnMaxIdleTime: 500 * time.Millisecond,
	})
	defer client.Close()
	conn := wrap(t, client)
	fill(t, conn, w)
	w.Mute()
	assert.LessOrEqual(t, failures(t, 600*time.Millisecond, func(ctx context.Context) error {
		_, err := conn.Do(ctx, on("SET", "k", "v"))
		return err
	}), 2)
}
