package goredis_test

import (
	"context"
	"fmt"
	"net"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// A fakeCluster is one master with all slots and two replicas, in memory.
type fakeCluster struct {
	addrs []string // that of the master first
	lines map[string]*wire.Wire
	data  map[string]*miniredis.Miniredis
	slots map[string]*wire.Rule
}

func newFakeCluster(t *testing.T) *fakeCluster {
	c := &fakeCluster{
		addrs: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
		lines: map[string]*wire.Wire{}, data: map[string]*miniredis.Miniredis{}, slots: map[string]*wire.Rule{},
	}
	for _, addr := range c.addrs {
		memory := miniredis.NewMiniRedis()
		t.Cleanup(memory.Close)
		w := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
		t.Cleanup(func() { assert.NoError(t, w.Close()) })
		c.lines[addr], c.data[addr] = w, memory
		c.says(addr, c.addrs...)
	}
	return c
}

// answersAsSentinel has the last of the servers answer as a Sentinel, for whom the first one is the master.
func (c *fakeCluster) answersAsSentinel() *wire.Wire {
	sentinel := c.lines["127.0.0.1:3"]
	sentinel.On(wire.Match{Name: "SENTINEL", Arg: "get-master-addr-by-name", Times: -1},
		wire.Answer("*2\r\n$9\r\n127.0.0.1\r\n$1\r\n1\r\n"))
	sentinel.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer("*0\r\n"))
	return sentinel
}

// says has a node tell who the master is, and its replicas.
func (c *fakeCluster) says(addr string, nodes ...string) {
	if former := c.slots[addr]; former != nil {
		former.Remove()
	}
	c.slots[addr] = c.lines[addr].On(wire.Match{Name: "CLUSTER", Times: -1}, wire.Answer(slots(nodes...)))
}

func (c *fakeCluster) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return c.lines[addr].Dial(ctx, network, addr)
}

// elect makes the second node the master by the word of the last two.
func (c *fakeCluster) elect() {
	for _, addr := range c.addrs[1:] {
		c.says(addr, c.addrs[1:]...)
	}
}

// slots is a reply to CLUSTER SLOTS.
func slots(addrs ...string) string {
	var reply strings.Builder
	fmt.Fprintf(&reply, "*1\r\n*%d\r\n:0\r\n:16383\r\n", 2+len(addrs))
	for _, addr := range addrs {
		host, port, _ := net.SplitHostPort(addr)
		fmt.Fprintf(&reply, "*3\r\n$%d\r\n%s\r\n:%s\r\n$1\r\n%s\r\n", len(host), host, port, port)
	}
	return reply.String()
}

// A master that is gone sends nobody to its successor, and go-redis, which sends no command of
// locks twice, went on asking it for up to a minute.
func TestClusterFindsTheNewMaster(t *testing.T) {
	for fault, begin := range map[string]func(master *wire.Wire){
		"killed": func(master *wire.Wire) {
			master.Refuse(true)
			master.KillAll()
		},
		"frozen": func(master *wire.Wire) { master.Partition() },
		"cut off from the others": func(master *wire.Wire) {
			master.On(wire.Match{Name: "SET", Times: -1}, wire.Answer("-CLUSTERDOWN The cluster is down\r\n"))
		},
		"started again, and loading": func(master *wire.Wire) {
			master.On(wire.Match{Name: "SET", Times: -1}, wire.Answer("-LOADING Redis is loading the dataset in memory\r\n"))
		},
		"busy with a script": func(master *wire.Wire) {
			master.On(wire.Match{Name: "SET", Times: -1}, wire.Answer("-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.\r\n"))
		},
		"a replica that sends nobody to its master": func(master *wire.Wire) { // of servers that are no Cluster
			master.On(wire.Match{Name: "SET", Times: -1}, wire.Answer("-READONLY You can't write against a read only replica.\r\n"))
		},
	} {
		for way, connect := range map[string]func(*testing.T, *fakeCluster) driver.Conn{
			"open": func(t *testing.T, c *fakeCluster) driver.Conn {
				return open(t, driver.Config{Mode: driver.ModeCluster, Addrs: c.addrs, Dial: c.Dial})
			},
			"wrap": func(t *testing.T, c *fakeCluster) driver.Conn {
				client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.addrs, Dialer: c.Dial})
				t.Cleanup(func() { assert.NoError(t, client.Close()) })
				return wrap(t, client)
			},
		} {
			for name, set := range map[string]func(context.Context, driver.Conn) error{
				"Do": func(ctx context.Context, conn driver.Conn) error {
					_, err := conn.Do(ctx, on("SET", "k", "v"))
					return err
				},
				"DoBatch": func(ctx context.Context, conn driver.Conn) error {
					return conn.(driver.Batcher).DoBatch(ctx, []driver.Command{on("SET", "k", "v"), on("SET", "k", "v")})[1].Err
				},
			} {
				t.Run(fault+"/"+way+"/"+name, func(t *testing.T) {
					forgetTimers()
					synctest.Test(t, func(t *testing.T) {
						t.Cleanup(func() { time.Sleep(2 * time.Second) }) // go-redis sleeps after dials that fail
						cluster := newFakeCluster(t)
						conn := connect(t, cluster)
						require.NoError(t, set(t.Context(), conn))
						require.True(t, cluster.data[cluster.addrs[0]].Exists("k"))
						begin(cluster.lines[cluster.addrs[0]])
						cluster.elect()
						elected := time.Now()
						for err := set(t.Context(), conn); err != nil; {
							require.Less(t, time.Since(elected), 30*time.Second, "%v", err)
							time.Sleep(100 * time.Millisecond)
							ctx, cancel := context.WithTimeout(t.Context(), time.Second)
							err = set(ctx, conn)
							cancel()
						}
						assert.True(t, cluster.data[cluster.addrs[1]].Exists("k"))
					})
				})
			}
		}
	}
}

// The calls of locks end before a wrapped client notices that the master is silent.
func TestClusterFindsTheNewMasterThoughCallsGiveUpEarly(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // go-redis goes on dialing, and sleeps in between
		cluster := newFakeCluster(t)
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.addrs, Dialer: cluster.Dial})
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		conn := wrap(t, client)
		_, err := conn.Do(t.Context(), on("SET", "k", "v"))
		require.NoError(t, err)
		cluster.lines[cluster.addrs[0]].Partition()
		cluster.elect()
		elected := time.Now()
		for err := context.DeadlineExceeded; err != nil; {
			require.Less(t, time.Since(elected), 30*time.Second, "%v", err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err = conn.Do(ctx, on("SET", "k", "v"))
			cancel()
		}
		assert.True(t, cluster.data[cluster.addrs[1]].Exists("k"))
	})
}

// However many calls fail, the nodes are not asked all the time.
func TestClusterIsAskedTwiceASecondAtMost(t *testing.T) {
	forgetTimers()
	synctest.Test(t, func(t *testing.T) {
		cluster := newFakeCluster(t)
		conn := open(t, driver.Config{Mode: driver.ModeCluster, Addrs: cluster.addrs, Dial: cluster.Dial})
		_, err := conn.Do(t.Context(), on("SET", "k", "v"))
		require.NoError(t, err)
		cluster.lines[cluster.addrs[0]].On(wire.Match{Name: "SET", Times: -1}, wire.Answer("-CLUSTERDOWN The cluster is down\r\n"))
		asked := func() (n int) {
			for _, line := range cluster.lines {
				n += line.Count(wire.Match{Name: "CLUSTER"})
			}
			return n
		}
		before := asked()
		for range 100 {
			_, err := conn.Do(t.Context(), on("SET", "k", "v"))
			require.Error(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		assert.Equal(t, 2, asked()-before)
	})
}

// stacks are those of all goroutines.
func stacks() string {
	buf := make([]byte, 1<<20)
	return string(buf[:runtime.Stack(buf, true)])
}

// Nobody asks on behalf of a Conn that is closed, whether a node had answered or not: the
// bubble does not end before all of its goroutines.
func TestClusterCloseLeavesNobodyAsking(t *testing.T) {
	for name, hung := range map[string]int{"a node hangs": 1, "all nodes hang": 3} {
		t.Run(name, func(t *testing.T) {
			forgetTimers()
			synctest.Test(t, func(t *testing.T) {
				cluster := newFakeCluster(t)
				conn := open(t, driver.Config{Mode: driver.ModeCluster, Addrs: cluster.addrs, Dial: cluster.Dial})
				_, err := conn.Do(t.Context(), on("SET", "k", "v"))
				require.NoError(t, err)
				for _, addr := range cluster.addrs[:hung] {
					cluster.lines[addr].Partition()
				}
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
					_, err = conn.Do(ctx, on("SET", "k", "v"))
					cancel()
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				synctest.Wait()
				closing := time.Now()
				require.NoError(t, conn.Close())
				assert.Zero(t, time.Since(closing))
				assert.NotContains(t, stacks(), "ForEachMaster")
			})
		})
	}
}
