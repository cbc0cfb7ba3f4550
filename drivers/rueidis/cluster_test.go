package rueidis_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
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

// A node of a Cluster may be replaced by another one under its name, as managed services do. The former one
// goes on for some minutes, and sends everybody to that very name, which leads elsewhere by now.
func TestClusterNodeThatIsReplacedUnderItsName(t *testing.T) {
	addr := miniredis.RunT(t).Addr()
	connectors := map[string]func(*testing.T, driver.DialFunc) driver.Connector{
		"open": func(t *testing.T, dial driver.DialFunc) driver.Connector {
			return connector(t, driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{addr}, Dial: dial})
		},
		"wrap": func(t *testing.T, dial driver.DialFunc) driver.Connector {
			c, err := rue.NewClient(rue.ClientOption{InitAddress: []string{addr}, DisableCache: true,
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return dial(ctx, "tcp", addr)
				}})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			return rueidis.Wrap(c)
		},
	}
	calls := map[string]func(driver.Conn, driver.Command) error{
		"Do": func(conn driver.Conn, cmd driver.Command) error {
			_, err := conn.Do(within(t, 10*time.Second), cmd)
			return err
		},
		"DoBatch": func(conn driver.Conn, cmd driver.Command) error {
			results := conn.(driver.Batcher).DoBatch(within(t, 10*time.Second), []driver.Command{cmd, cmd})
			return errors.Join(results[0].Err, results[1].Err)
		},
	}
	for name, connector := range connectors {
		for kind, call := range calls {
			t.Run(name+"/"+kind, func(t *testing.T) {
				former, present := wire.New(wire.TCP(addr)), wire.New(wire.TCP(addr))
				defer former.Close()
				defer present.Close()
				var replaced atomic.Bool
				conn := connect(t, connector(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
					if replaced.Load() {
						return present.Dial(ctx, network, addr)
					}
					return former.Dial(ctx, network, addr)
				}))
				require.NoError(t, call(conn, keyed(1, 1, "INCR", "k")))
				replaced.Store(true)
				former.On(wire.Match{Name: "INCR", Times: -1}, wire.Answer(fmt.Sprintf("-MOVED %d %s\r\n", driver.Slot("k"), addr)))
				assert.NoError(t, call(conn, keyed(1, 1, "INCR", "k")))
			})
		}
	}
}

// Two nodes may send a call to each other for as long as a move of its slot is undone by hand.
func TestClusterWhoseNodesSendACallToEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, first *wire.Wire) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // rueidis' timers of a Cluster have passed then
		memory := miniredis.NewMiniRedis()
		t.Cleanup(memory.Close)
		second := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
		t.Cleanup(func() { assert.NoError(t, second.Close()) })
		nodes := map[string]*wire.Wire{"127.0.0.1:1": first, "127.0.0.1:2": second}
		for _, w := range nodes {
			w.On(wire.Match{Name: "CLUSTER", Times: -1}, slots("1", "2"))
		}
		conn := open(t, driver.Config{
			Mode: driver.ModeCluster, Addrs: []string{"127.0.0.1:1"},
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return nodes[addr].Dial(ctx, network, addr)
			},
		})
		first.On(wire.Match{Name: "SET", Times: 50}, wire.Answer("-MOVED 0 127.0.0.1:2\r\n"))
		second.On(wire.Match{Name: "SET", Times: 50}, wire.Answer("-MOVED 0 127.0.0.1:1\r\n"))
		_, err := conn.Do(t.Context(), keyed(1, 1, "SET", "k", "v"))
		assert.ErrorContains(t, err, "MOVED")
		assert.Equal(t, 1+8, first.Count(wire.Match{Name: "SET"})+second.Count(wire.Match{Name: "SET"}))
	})
}
