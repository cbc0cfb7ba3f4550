package integration_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// A twoMasters is a name that leads to a master, until there is another one.
type twoMasters struct {
	former, master *servertest.Server
	leads          atomic.Pointer[string]
}

func newTwoMasters(t *testing.T) *twoMasters {
	t.Helper()
	servers := servertest.Servers(t, 2)
	m := &twoMasters{former: servers[0], master: servers[1]}
	m.leads.Store(&m.former.Addr)
	return m
}

// pooled is how many connections a client may have to it.
const pooled = 16

// connector returns one of d to the name.
func (m *twoMasters) connector(t *testing.T, d driver.Driver) driver.Connector {
	t.Helper()
	connector, err := d.OpenConnector(driver.Config{
		Network: "tcp", Addrs: []string{"master:6379"}, PoolSize: pooled,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, *m.leads.Load())
		},
	})
	require.NoError(t, err)
	return connector
}

// fail has the name lead to the new master, which the former one follows. It returns when that
// knows all that the new one knows of; until then it may say LOADING.
func (m *twoMasters) fail(t *testing.T) {
	t.Helper()
	do(t, m.former, "REPLICAOF", "127.0.0.1", m.master.Port())
	m.leads.Store(&m.master.Addr)
	eventually(t, "the former master follows", func() bool {
		return do(t, m.former, "ROLE").([]any)[3] == "connected" && do(t, m.former, "DBSIZE") == do(t, m.master, "DBSIZE")
	})
}

// useAll has n connections of conn's wait at the server, and returns what they were told there.
func useAll(t *testing.T, conn driver.Conn, n int64, at *servertest.Server) []error {
	t.Helper()
	errs, returned := make([]error, n), atomic.Int64{}
	var calls sync.WaitGroup
	for i := range errs {
		calls.Go(func() {
			_, errs[i] = conn.Do(soon(t), driver.Command{Args: []string{"BLPOP", "all", "0"}, FirstKey: 1, NumKeys: 1})
			returned.Add(1)
		})
	}
	eventually(t, "all connections are in use", func() bool {
		return at.InfoSays("clients", fmt.Sprintf("blocked_clients:%d", n-returned.Load())) == nil
	})
	for range n - returned.Load() {
		do(t, at, "RPUSH", "all", "x")
	}
	calls.Wait()
	return errs
}

// A single address may be a name that leads to the master. After a failover the former one
// is well, but only reads: connections to it must not be kept, neither the one that it has
// refused a command on nor those that are idle, each of which cost one more call.
func TestNameThatLeadsToAnotherMaster(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		driver.Driver
		conns int64 // that it makes for calls at the same time
	}{
		"goredis": {goredis.Driver{}, pooled}, "redigo": {redigo.Driver{}, pooled}, "rueidis": {rueidis.Driver{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTwoMasters(t)
			conn, err := m.connector(t, test.Driver).Connect(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, conn.Close()) })
			set := func() error {
				_, err := conn.Do(soon(t), driver.Command{Args: []string{"SET", "k", "v"}, FirstKey: 1, NumKeys: 1})
				return err
			}
			for _, err := range useAll(t, conn, test.conns, m.former) {
				require.NoError(t, err)
			}
			m.fail(t)
			assert.ErrorContains(t, set(), "READONLY")
			require.NoError(t, set(), "the call after the one that was refused")
			assert.True(t, exists(t, m.master, "k"))
			for _, err := range useAll(t, conn, test.conns, m.master) {
				assert.NoError(t, err, "on a connection that was idle")
			}
		})
	}
}
