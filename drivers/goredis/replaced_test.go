package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// A node of a Cluster may be replaced by another one under its name, as managed services do. The former one
// goes on for some minutes, and sends everybody to that very name, which leads elsewhere by now.
func TestClusterNodeThatIsReplacedUnderItsName(t *testing.T) {
	const idle = 3 // connections to the former one
	cluster := servertest.Cluster(t, 1)
	addr := cluster.Addrs()[0]
	connect := map[string]func(*testing.T, driver.DialFunc) driver.Conn{
		"open": func(t *testing.T, dial driver.DialFunc) driver.Conn {
			return open(t, driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: cluster.Addrs(), Dial: dial})
		},
		"wrap": func(t *testing.T, dial driver.DialFunc) driver.Conn {
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: dial})
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			return wrap(t, client)
		},
	}
	calls := map[string]func(driver.Conn, driver.Command) error{
		"Do": func(conn driver.Conn, cmd driver.Command) error {
			_, err := conn.Do(soon(t), cmd)
			return err
		},
		"DoBatch": func(conn driver.Conn, cmd driver.Command) error {
			results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{cmd, cmd})
			return errors.Join(results[0].Err, results[1].Err)
		},
	}
	for name, connect := range connect {
		for kind, call := range calls {
			t.Run(name+"/"+kind, func(t *testing.T) {
				former, present := newWire(t, addr), newWire(t, addr)
				var replaced atomic.Bool
				conn := connect(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
					if replaced.Load() {
						return present.Dial(ctx, network, addr)
					}
					return former.Dial(ctx, network, addr)
				})
				held := former.On(wire.Match{Name: "GET", Times: -1}, wire.HoldReply)
				var all sync.WaitGroup
				for i := range idle {
					all.Go(func() { assert.NoError(t, call(conn, on("GET", "k"))) })
					require.Eventually(t, func() bool { return held.Applied() > i }, 10*time.Second, time.Millisecond)
				}
				held.Release()
				all.Wait()

				replaced.Store(true)
				former.On(wire.Match{Name: "INCR", Times: -1}, wire.Answer(fmt.Sprintf("-MOVED %d %s\r\n", driver.Slot("k"), addr)))
				err, failed := call(conn, on("INCR", "k")), 0
				for ; err != nil && failed <= idle; failed++ {
					err = call(conn, on("INCR", "k"))
				}
				assert.NoError(t, err)
				if name == "open" {
					assert.Zero(t, failed)
				}
			})
		}
	}
}
