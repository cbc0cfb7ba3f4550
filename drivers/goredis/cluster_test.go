package goredis_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

func TestCluster(t *testing.T) {
	cluster := servertest.Cluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
	defer client.Close()
	cfg := driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: cluster.Addrs()[:1]}

	for name, conn := range map[string]driver.Conn{"open": open(t, cfg), "wrap": wrap(t, client)} {
		t.Run(name, func(t *testing.T) {
			topology, err := conn.(driver.Describer).Describe(soon(t))
			require.NoError(t, err)
			assert.Equal(t, driver.Topology{Mode: driver.ModeCluster}, topology)

			var batch []driver.Command
			var want []driver.Result
			for i := range 30 {
				key := fmt.Sprint(name, i)
				_, err := conn.Do(soon(t), on("SET", key, key))
				require.NoError(t, err)
				batch = append(batch, driver.Command{
					Args:     []string{"EVAL", "return redis.call('GET', KEYS[1])", "1", key},
					FirstKey: 3, NumKeys: 1,
				})
				want = append(want, driver.Result{Value: key})
			}
			assert.Equal(t, want, conn.(driver.Batcher).DoBatch(soon(t), batch))
			assert.Equal(t, "x", do(t, conn, "ECHO", "x"))

			_, err = conn.Do(soon(t), driver.Command{Args: []string{"MSET", "a", "1", "b", "2"}, FirstKey: 1, NumKeys: 1})
			reply, ok := errors.AsType[*driver.ServerError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "CROSSSLOT", reply.Code)

			sub := subscribe(t, conn, "c")
			for i := range 6 { // from various nodes
				hearsInCluster(t, sub, conn, "c", fmt.Sprint(name, i))
			}
		})
	}
	t.Run("wrap leaves the client open", func(t *testing.T) {
		require.NoError(t, wrap(t, client).Close())
		assert.NoError(t, client.Set(soon(t), "k", "v", 0).Err())
	})
}

// hearsInCluster is hears where messages may come late or, as long as the nodes
// of a young Cluster are not all connected, get lost between them.
func hearsInCluster(t *testing.T, sub driver.Subscription, conn driver.Conn, channel, payload string) {
	t.Helper()
	for ctx := soon(t); ; {
		do(t, conn, "PUBLISH", channel, payload)
		while, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		message, err := sub.Receive(while)
		cancel()
		if err == nil && message.Payload == payload {
			return
		}
		require.NoError(t, ctx.Err(), "%s was not heard", payload)
	}
}

// wires are one wire for each node of a Cluster, by its address.
type wires map[string]*wire.Wire

func newWires(t *testing.T, cluster *servertest.ClusterNodes) wires {
	w := wires{}
	for _, addr := range cluster.Addrs() {
		w[addr] = newWire(t, addr)
	}
	return w
}

func (w wires) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	return w[addr].Dial(ctx, network, addr)
}

func (w wires) count(m wire.Match) int {
	n := 0
	for _, one := range w {
		n += one.Count(m)
	}
	return n
}

// A command goes where its key is, also when go-redis would not find the key,
// and costs no other.
func TestClusterRoutes(t *testing.T) {
	cluster := servertest.Cluster(t, 2)
	w := newWires(t, cluster)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: w.Dial})
	defer client.Close()
	conn := wrap(t, client)
	for i := range 10 {
		key := fmt.Sprint("key", i)
		_, err := conn.Do(soon(t), driver.Command{Args: []string{"MEMORY", "USAGE", key}, FirstKey: 2, NumKeys: 1})
		require.NoError(t, err)
		sent := wire.Match{Name: "MEMORY", Arg: key}
		assert.Equal(t, 1, w.count(sent))
		assert.Equal(t, 1, w[cluster.NodeOf(key).Addr].Count(sent))
	}
	assert.Zero(t, w.count(wire.Match{Name: "COMMAND"}))
}

// What go-redis resends in a Cluster, it sends once here; redirections it
// follows in spite of that.
func TestClusterSendsOnce(t *testing.T) {
	cluster := servertest.Cluster(t, 2)
	const key = "k"
	owner, other := cluster.NodeOf(key), cluster.Nodes[0]
	if other == owner {
		other = cluster.Nodes[1]
	}
	for _, retries := range []int{-1, 3} {
		for name, send := range map[string]func(driver.Conn) error{
			"Do": func(conn driver.Conn) error {
				_, err := conn.Do(soon(t), on("INCR", key))
				return err
			},
			"DoBatch": func(conn driver.Conn) error {
				return conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("INCR", key)})[0].Err
			},
		} {
			t.Run(fmt.Sprintf("%s/MaxRetries %d", name, retries), func(t *testing.T) {
				connect := func(t *testing.T) (wires, driver.Conn) {
					w := newWires(t, cluster)
					client := redis.NewClusterClient(&redis.ClusterOptions{
						Addrs: cluster.Addrs(), Dialer: w.Dial, MaxRetries: retries,
					})
					t.Cleanup(func() { assert.NoError(t, client.Close()) })
					conn := wrap(t, client)
					_, err := conn.Do(soon(t), on("DEL", key))
					require.NoError(t, err)
					return w, conn
				}
				t.Run("lost reply", func(t *testing.T) {
					w, conn := connect(t)
					w[owner.Addr].On(wire.Match{Name: "INCR", Times: -1}, wire.CutReply)
					err := send(conn)
					unknown(t, err)
					assert.Equal(t, 1, w.count(wire.Match{Name: "INCR"}))
				})
				t.Run("moved", func(t *testing.T) {
					w, conn := connect(t)
					moved := fmt.Sprintf("-MOVED %d %s\r\n", driver.Slot(key), other.Addr)
					w[owner.Addr].On(wire.Match{Name: "INCR"}, wire.Answer(moved))
					require.NoError(t, send(conn)) // to owner, to other, and back
					assert.Equal(t, 3, w.count(wire.Match{Name: "INCR"}))
					assert.Equal(t, "1", do(t, conn, "GET", key))
				})
				t.Run("moved and lost", func(t *testing.T) {
					w, conn := connect(t)
					moved := fmt.Sprintf("-MOVED %d %s\r\n", driver.Slot(key), other.Addr)
					w[owner.Addr].On(wire.Match{Name: "INCR"}, wire.Answer(moved))
					w[other.Addr].On(wire.Match{Name: "INCR"}, wire.CutRequest)
					err := send(conn)
					unknown(t, err)
					assert.Equal(t, 2, w.count(wire.Match{Name: "INCR"}))
				})
			})
		}
	}
}

// go-redis can be told to send copies of some commands to all masters.
func TestClusterSendsCopiesOnce(t *testing.T) {
	cluster := servertest.Cluster(t, 2)
	w := newWires(t, cluster)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: w.Dial, MaxRetries: 3})
	defer client.Close()
	client.SetCommandInfoResolver(client.NewDynamicResolver())
	sent := wire.Match{Name: "DBSIZE", Times: -1}
	w[cluster.Nodes[0].Addr].On(sent, wire.CutReply)
	_, err := wrap(t, client).Do(soon(t), driver.Command{Args: []string{"DBSIZE"}})
	unknown(t, err)
	for _, node := range cluster.Nodes {
		assert.Equal(t, 1, w[node.Addr].Count(sent))
	}
}

// go-redis leaves the error of a first attempt, which sent nothing, with a
// command that the second attempt has sent.
func TestClusterBatchClaimsNothing(t *testing.T) {
	cluster := servertest.Cluster(t, 1)
	w := newWires(t, cluster)
	var refuse atomic.Bool
	client := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: cluster.Addrs(),
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if refuse.CompareAndSwap(true, false) {
				return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
			}
			return w.Dial(ctx, network, addr)
		},
		DialerRetries:    1,
		PipelinePoolSize: -1,
		ConnMaxIdleTime:  1, // each use dials
	})
	defer client.Close()
	conn := wrap(t, client)
	do(t, conn, "PING")

	for _, node := range w {
		node.On(wire.Match{Name: "INCR"}, wire.CutReply)
	}
	refuse.Store(true)
	results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("INCR", "k"), on("INCR", "k")})
	require.NotZero(t, w.count(wire.Match{Name: "INCR"}), "nothing was sent: the test is at fault")
	for _, r := range results {
		unknown(t, r.Err)
	}
	assert.ErrorIs(t, results[1].Err, syscall.ECONNREFUSED, "go-redis has changed: commandFailure may be simpler")
}

// Nor is a redirection the last that is known of a command that was sent to the next node, behind
// one for whose reply the connection broke.
func TestClusterBatchThatWasMovedAndLost(t *testing.T) {
	cluster := servertest.Cluster(t, 2)
	const key = "k"
	owner, other := cluster.NodeOf(key), cluster.Nodes[0]
	if other == owner {
		other = cluster.Nodes[1]
	}
	for _, code := range []string{"MOVED", "ASK"} {
		t.Run(code, func(t *testing.T) {
			w := newWires(t, cluster)
			client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Dialer: w.Dial})
			defer client.Close()
			conn := wrap(t, client)
			w[owner.Addr].On(wire.Match{Name: "INCR", Times: 2}, wire.Answer(fmt.Sprintf("-%s %d %s\r\n", code, driver.Slot(key), other.Addr)))
			w[other.Addr].On(wire.Match{Name: "INCR"}, wire.CutRequest)
			for _, r := range conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("INCR", key), on("INCR", key)}) {
				unknown(t, r.Err)
			}
			assert.NotZero(t, w[other.Addr].Count(wire.Match{Name: "INCR"}), "the test is at fault: it was not sent there")
		})
	}
}

// Which nodes there are is asked on behalf of a command, and by another one.
func TestClusterThatIsNone(t *testing.T) {
	server := servertest.Single(t)
	conn := open(t, driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{server.Addr}})
	results := conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{on("SET", "k", "v"), on("SET", "l", "v")})
	_, err := conn.Do(soon(t), on("SET", "k", "v"))
	for _, r := range append(results, driver.Result{Err: err}) {
		assert.ErrorContains(t, r.Err, "cluster support disabled")
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(r.Err), "%v", r.Err)
	}
}

// To describe a Cluster nothing is asked that would tell that the Conn is closed.
func TestClusterThatIsClosedIsNotDescribed(t *testing.T) {
	conn := open(t, driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{"127.0.0.1:1"}})
	require.NoError(t, conn.Close())
	topology, err := conn.(driver.Describer).Describe(soon(t))
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	assert.Equal(t, driver.Topology{Mode: driver.ModeCluster}, topology)
}

// A node that nobody has told its address has none in its answer: it is where it was asked, and
// not on this machine, where another server might take the locks.
func TestClusterNodeThatDoesNotKnowItsAddress(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("there may be no 127.0.0.2")
	}
	node := servertest.Cluster(t, 1, servertest.Config("cluster-announce-ip", ""), servertest.Config("bind", "127.0.0.2")).Nodes[0]
	here, err := net.Listen("tcp", "127.0.0.1:"+node.Port())
	require.NoError(t, err)
	defer here.Close()
	cfg := driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{"127.0.0.2:" + node.Port()}}
	do(t, open(t, cfg), "SET", "k", "v")

	cfg.Addrs = append(cfg.Addrs, "127.0.0.3:1")
	_, err = open(t, cfg).Do(soon(t), on("SET", "k", "v"))
	assert.ErrorContains(t, err, "does not tell its host")
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)

	require.NoError(t, here.(*net.TCPListener).SetDeadline(time.Now()))
	_, err = here.Accept()
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "another server was asked")
}

// go-redis cannot read that a node has no address at all.
func TestClusterWithoutAddressesIsNamed(t *testing.T) {
	cluster := servertest.Cluster(t, 1, servertest.Config("cluster-preferred-endpoint-type", "unknown-endpoint"))
	_, err := open(t, driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: cluster.Addrs()}).Do(soon(t), on("SET", "k", "v"))
	assert.ErrorContains(t, err, "cluster-preferred-endpoint-type")
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
}

// Nor has one a hostname that nobody gave it: what it tells in its place is no name to be looked up.
func TestClusterWithoutHostnamesIsNamed(t *testing.T) {
	cluster := servertest.Cluster(t, 1, servertest.Config("cluster-preferred-endpoint-type", "hostname"))
	_, err := open(t, driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: cluster.Addrs()}).Do(soon(t), on("SET", "k", "v"))
	assert.ErrorContains(t, err, "cluster-announce-hostname")
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
}
