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

// A single address may be a name that leads to the master. After a failover the former one
// is well, but only reads: connections to it must not be kept.
func TestNameThatLeadsToAnotherMaster(t *testing.T) {
	t.Parallel()
	for name, d := range map[string]driver.Driver{
		"goredis": goredis.Driver{}, "redigo": redigo.Driver{}, "rueidis": rueidis.Driver{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := servertest.Servers(t, 2)
			former, master := servers[0], servers[1]
			var leads atomic.Pointer[string]
			leads.Store(&former.Addr)
			connector, err := d.OpenConnector(driver.Config{
				Network: "tcp", Addrs: []string{"master:6379"},
				Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, *leads.Load())
				},
			})
			require.NoError(t, err)
			conn, err := connector.Connect(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, conn.Close()) })
			set := func() error {
				_, err := conn.Do(soon(t), driver.Command{Args: []string{"SET", "k", "v"}, FirstKey: 1, NumKeys: 1})
				return err
			}
			require.NoError(t, set())
			do(t, former, "REPLICAOF", "127.0.0.1", master.Port())
			leads.Store(&master.Addr)
			eventually(t, "the former master follows", func() bool {
				return do(t, former, "ROLE").([]any)[3] == "connected" // until then it may say LOADING
			})
			assert.ErrorContains(t, set(), "READONLY")
			require.NoError(t, set(), "the call after the one that was refused")
			assert.True(t, exists(t, master, "k"))
		})
	}
}
