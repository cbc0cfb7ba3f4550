package rueidis_test

import (
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A node that was removed from its Cluster and goes on answers that it is a Cluster of itself, which
// has no slots: CLUSTER SLOTS with nothing, but CLUSTER SHARDS, which rueidis asks servers from Redis 8
// on, with a shard. It believes who answers first.
func TestClusterWithoutTheNodeWhoseAddressWasGiven(t *testing.T) {
	removed, member := miniredis.RunT(t), miniredis.RunT(t)
	removed.Server().SetPreHook(func(c *server.Peer, cmd string, args ...string) bool {
		if !strings.EqualFold(cmd, "CLUSTER") {
			return false
		}
		if strings.EqualFold(args[0], "SHARDS") {
			shardWithoutSlots(t, c, removed.Addr())
		} else {
			c.WriteLen(0)
		}
		return true
	})
	cfg := driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{removed.Addr(), member.Addr()}}
	for range 20 {
		conn := open(t, cfg)
		for range 5 {
			_, err := conn.Do(within(t, 10*time.Second), keyed(1, 1, "SET", "k", "v"))
			require.NoError(t, err)
		}
	}
	require.False(t, removed.Exists("k"))
}

func shardWithoutSlots(t *testing.T, c *server.Peer, addr string) {
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	number, err := strconv.Atoi(port)
	require.NoError(t, err)
	c.WriteLen(1)
	c.WriteMapLen(2)
	c.WriteBulk("slots")
	c.WriteLen(0)
	c.WriteBulk("nodes")
	c.WriteLen(1)
	c.WriteMapLen(4)
	c.WriteBulk("port")
	c.WriteInt(number)
	c.WriteBulk("endpoint")
	c.WriteBulk(host)
	c.WriteBulk("role")
	c.WriteBulk("master")
	c.WriteBulk("health")
	c.WriteBulk("online")
}
