package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A NAT or a load balancer forgets its flows, or the host has died behind its name: all
// connections of a client are silently dead, and new ones work. With go-redis, whose pool had 16
// that were idle, a lease of ten seconds was lost, and a free lock was had after 21.
func TestConnectionsThatAreSilentlyDeadLoseNoLease(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		connector := d.byDSN(t, "redis://"+addr+"?pool_size=16")
		conn, err := connector.Connect(soon(t))
		require.NoError(t, err)
		if d.name != "rueidis" { // which has one connection for all
			useAtOnce(t, conn, w, 16)
		}
		c := newClient(t, driver.NewConnector(connector.Driver(), func(context.Context) (driver.Conn, error) { return conn, nil }),
			locker.TTL(10*time.Second))
		lease := mustLock(t, c.Mutex("held"))
		w.Mute()
		took := timed(func() { mustLock(t, c.Mutex("free")) })
		t.Logf("a free lock was had after %v", took)
		assert.Less(t, took, 10*time.Second)
		assert.True(t, survivesRenewals(lease, 2), "%v", lease.Err())
	})
}

// useAtOnce makes a pool have as many connections.
func useAtOnce(t *testing.T, conn driver.Conn, w *wire.Wire, n int) {
	t.Helper()
	held := w.On(wire.Match{Name: "ECHO", Times: -1}, wire.HoldReply)
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			_, err := conn.Do(soon(t), driver.Command{Args: []string{"ECHO", "x"}})
			assert.NoError(t, err)
		})
	}
	eventually(t, "all are in use", func() bool { return w.Count(wire.Match{Name: "ECHO"}) == n })
	held.Release()
	held.Remove()
	all.Wait()
}
