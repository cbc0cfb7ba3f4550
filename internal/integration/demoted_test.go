package integration_test

import (
	"context"
	"net"
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

// connector returns one of d to the name.
func (m *twoMasters) connector(t *testing.T, d driver.Driver) driver.Connector {
	t.Helper()
	connector, err := d.OpenConnector(driver.Config{
		Network: "tcp", Addrs: []string{"master:6379"},
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

// A single address may be a name that leads to the master. After a failover the former one
// is well, but only reads: connections to it must not be kept.
func TestNameThatLeadsToAnotherMaster(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]driver.Driver{
		"goredis": goredis.Driver{}, "redigo": redigo.Driver{}, "rueidis": rueidis.Driver{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newTwoMasters(t)
			conn, err := m.connector(t, d).Connect(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, conn.Close()) })
			set := func() error {
				_, err := conn.Do(soon(t), driver.Command{Args: []string{"SET", "k", "v"}, FirstKey: 1, NumKeys: 1})
				return err
			}
			require.NoError(t, set())
			m.fail(t)
			assert.ErrorContains(t, set(), "READONLY")
			require.NoError(t, set(), "the call after the one that was refused")
			assert.True(t, exists(t, m.master, "k"))
		})
	}
}
