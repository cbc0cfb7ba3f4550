//go:build unix

package rueidis_test

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// It is a user that may do no more than docs/servers.md says.
func TestConformanceServer(t *testing.T) {
	user := servertest.ConformanceUser(t)
	server := servertest.Single(t, servertest.Users(user))
	conformance.Test(t, conformance.Harness{
		Open:         rueidis.Driver{}.OpenConnector,
		Capabilities: capabilities,
		Known:        pipelined,
	}, conformance.Server(server.Addr), conformance.As(user.Name, user.Password))
	server.AssertPermitted(user)
}

func TestUnixSocket(t *testing.T) {
	srv := servertest.Single(t)
	conn := open(t, driver.Config{Network: "unix", Addrs: []string{srv.Socket}, DB: 3})
	do(t, conn, "SET", "k", "v")
	assert.Contains(t, do(t, conn, "INFO", "keyspace"), "db3:keys=1")
	sub := subscribe(t, conn, "ch")
	require.EqualValues(t, 1, do(t, conn, "PUBLISH", "ch", "m"))
	_, err := sub.Receive(t.Context())
	require.NoError(t, err)
}

// A server that is busy with a script refuses everything. rueidis panics when it refuses an
// UNSUBSCRIBE, behind which it sends a PING of its own.
func TestSubscribeBusyServer(t *testing.T) {
	for name, resp2 := range map[string]bool{"RESP3": false, "RESP2": true} {
		t.Run(name, func(t *testing.T) {
			srv := servertest.Single(t, servertest.Config("lua-time-limit", "1"))
			c, err := rue.NewClient(rue.ClientOption{InitAddress: []string{srv.Addr}, DisableCache: true, AlwaysRESP2: resp2})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			conn := connect(t, rueidis.Wrap(c))
			do(t, conn, "PING")
			sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, sub.Close()) })

			var running sync.WaitGroup
			running.Go(func() {
				ctx := context.WithoutCancel(t.Context())
				_, _ = conn.Do(ctx, driver.Command{Args: []string{"EVAL", "while true do end", "0"}})
			})
			busy := func() bool {
				_, err := srv.Do("GET", "k")
				return err != nil
			}
			require.Eventually(t, busy, 20*time.Second, 5*time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			other, err := conn.(driver.Subscriber).Subscribe(ctx)
			if err == nil {
				require.Error(t, other.Add(ctx, "ch"), "a busy server has answered")
				require.NoError(t, other.Close())
			}
			_, err = srv.Do("SCRIPT", "KILL")
			require.NoError(t, err)
			running.Wait()
			require.NoError(t, sub.Add(t.Context(), "ch"))
			require.EqualValues(t, 1, do(t, conn, "PUBLISH", "ch", "m"))
			m, err := sub.Receive(t.Context())
			require.NoError(t, err)
			assert.Equal(t, "m", m.Payload)
		})
	}
}

func TestTLS(t *testing.T) {
	srv := servertest.TLS(t, servertest.Config("tls-auth-clients", "yes"))
	cfg := single(srv.Addr)
	cfg.TLS = srv.Mutual()
	conn := open(t, cfg)
	do(t, conn, "SET", "k", "v")
	subscribe(t, conn, "ch")

	cfg.TLS = srv.ServerOnly()
	_, err := connector(t, cfg).Connect(t.Context())
	require.Error(t, err, "without a client certificate")
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

func TestRunID(t *testing.T) {
	servers := servertest.Servers(t, 2)
	var ids []string
	for _, srv := range servers {
		topology, err := open(t, single(srv.Addr)).(driver.Describer).Describe(t.Context())
		require.NoError(t, err)
		assert.Equal(t, driver.ModeSingle, topology.Mode)
		require.Len(t, topology.RunID, 40)
		ids = append(ids, topology.RunID)
	}
	assert.NotEqual(t, ids[0], ids[1])
}

func TestCluster(t *testing.T) {
	nodes := servertest.Cluster(t, 3)
	cfg := driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: nodes.Addrs()}
	wrapped, err := rue.NewClient(rue.ClientOption{InitAddress: nodes.Addrs()})
	require.NoError(t, err)
	t.Cleanup(wrapped.Close)
	for name, c := range map[string]driver.Connector{
		"opened": connector(t, cfg), "wrapped": rueidis.Wrap(wrapped),
	} {
		t.Run(name, func(t *testing.T) {
			conn := connect(t, c)
			t.Run("Keys", func(t *testing.T) { clusterKeys(t, conn, nodes) })
			t.Run("CrossSlot", func(t *testing.T) { clusterCrossSlot(t, conn) })
			t.Run("Keyless", func(t *testing.T) { clusterKeyless(t, conn) })
			t.Run("Batch", func(t *testing.T) { clusterBatch(t, conn) })
			t.Run("Moved", func(t *testing.T) { clusterMoved(t, conn, nodes) })
			t.Run("Subscribe", func(t *testing.T) { clusterSubscribe(t, conn, nodes) })
			topology, err := conn.(driver.Describer).Describe(t.Context())
			require.NoError(t, err)
			assert.Equal(t, driver.Topology{Mode: driver.ModeCluster}, topology)
			require.NoError(t, conn.Close())
			_, err = conn.(driver.Describer).Describe(t.Context())
			assert.ErrorIs(t, err, driver.ErrClosed)
		})
	}
	t.Run("Lifetime", func(t *testing.T) { refusesLifetime(t, rue.ClientOption{InitAddress: nodes.Addrs()}) })
	t.Run("NeedlessPassword", func(t *testing.T) {
		cfg := cfg
		cfg.Password = "pw"
		_, err := open(t, cfg).Do(t.Context(), keyed(1, 1, "GET", "k"))
		require.NoError(t, err)
	})
	t.Run("FrozenNode", func(t *testing.T) { clusterFrozenNode(t, open(t, cfg), nodes) })
}

// Each command goes straight to the node that has its keys, wherever they stand.
func clusterKeys(t *testing.T, conn driver.Conn, nodes *servertest.ClusterNodes) {
	for _, node := range nodes.Nodes {
		_, err := node.Do("CONFIG", "RESETSTAT")
		require.NoError(t, err)
	}
	for i := range 100 {
		a, b := fmt.Sprintf("{%d}a", i), fmt.Sprintf("{%d}b", i)
		_, err := conn.Do(t.Context(), keyed(1, 1, "SET", a, "v"))
		require.NoError(t, err)
		v, err := conn.Do(t.Context(), keyed(2, 2, "BITOP", "NOT", b, a))
		require.NoError(t, err)
		require.EqualValues(t, 1, v)
		v, err = conn.Do(t.Context(), keyed(3, 2, "EVAL", "return KEYS[2]", "2", a, b, "arg"))
		require.NoError(t, err)
		require.Equal(t, b, v)
	}
	for _, node := range nodes.Nodes {
		errors, err := node.Do("INFO", "errorstats")
		require.NoError(t, err)
		assert.NotContains(t, errors, "MOVED")
	}
}

// The error is that of a server, and nothing was sent.
func clusterCrossSlot(t *testing.T, conn driver.Conn) {
	cross := keyed(1, 2, "MSET", "a", "b", "c")
	_, err := conn.Do(t.Context(), cross)
	check := func(err error) {
		refusal, ok := asServerError(err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "CROSSSLOT", refusal.Code)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	}
	check(err)
	results := driver.DoBatch(t.Context(), conn, []driver.Command{cross, keyed(1, 1, "SET", "k", "v")})
	check(results[0].Err)
	assert.Equal(t, driver.Result{Value: "OK"}, results[1])
}

// Commands without keys go to any of the masters, and only there.
func clusterKeyless(t *testing.T, conn driver.Conn) {
	ports := map[string]bool{}
	for range 60 {
		role := do(t, conn, "ROLE").([]any)
		require.Equal(t, "master", role[0])
		port := do(t, conn, "CONFIG", "GET", "port").([]any)
		ports[port[1].(string)] = true
	}
	assert.Len(t, ports, 3)
}

func clusterBatch(t *testing.T, conn driver.Conn) {
	var cmds []driver.Command
	var want []driver.Result
	key := func(i int) string { return "batch" + strconv.Itoa(i) }
	for i := range 50 {
		cmds = append(cmds,
			keyed(1, 1, "DEL", key(i)), keyed(1, 1, "APPEND", key(i), "a"), command("ECHO", key(i)), keyed(1, 1, "APPEND", key(i), "b"))
	}
	results := driver.DoBatch(t.Context(), conn, cmds)
	for i := range 50 {
		want = append(want, driver.Result{Value: results[4*i].Value}, driver.Result{Value: int64(1)},
			driver.Result{Value: key(i)}, driver.Result{Value: int64(2)})
	}
	assert.Equal(t, want, results)
}

// A slot that moves away is followed.
func clusterMoved(t *testing.T, conn driver.Conn, nodes *servertest.ClusterNodes) {
	const key = "moving"
	slot := strconv.Itoa(driver.Slot(key))
	from := nodes.NodeOf(key)
	to := nodes.Nodes[0]
	if to == from {
		to = nodes.Nodes[1]
	}
	give := func(to *servertest.Server) {
		id, err := to.Do("CLUSTER", "MYID")
		require.NoError(t, err)
		for _, node := range nodes.Nodes {
			_, err := node.Do("CLUSTER", "SETSLOT", slot, "NODE", id.(string))
			require.NoError(t, err)
		}
	}
	set := func() {
		_, err := conn.Do(t.Context(), keyed(1, 1, "SET", key, "v", "PX", "1"))
		require.NoError(t, err)
		results := driver.DoBatch(t.Context(), conn, []driver.Command{keyed(1, 1, "DEL", key), keyed(1, 1, "EXISTS", key)})
		require.Equal(t, driver.Result{Value: int64(0)}, results[1])
	}
	set()
	give(to)
	set()
	give(from)
	set()
}

func clusterSubscribe(t *testing.T, conn driver.Conn, nodes *servertest.ClusterNodes) {
	sub := subscribe(t, conn, "ch")
	for i, node := range nodes.Nodes {
		_, err := node.Do("PUBLISH", "ch", strconv.Itoa(i))
		require.NoError(t, err)
		m, err := sub.Receive(within(t, 10*time.Second))
		require.NoError(t, err)
		assert.Equal(t, strconv.Itoa(i), m.Payload)
	}
}

// A node that hangs takes as many calls as come, and keeps none from the others.
func clusterFrozenNode(t *testing.T, conn driver.Conn, nodes *servertest.ClusterNodes) {
	const dead, alive = "a", "b"
	require.NotEqual(t, nodes.NodeOf(dead), nodes.NodeOf(alive))
	get := func(ctx context.Context, key string) error {
		_, err := conn.Do(ctx, keyed(1, 1, "GET", key))
		return err
	}
	require.NoError(t, get(t.Context(), dead))
	require.NoError(t, get(t.Context(), alive))
	frozen := nodes.NodeOf(dead)
	frozen.Pause()
	defer frozen.Resume()
	var calls sync.WaitGroup
	ctx := within(t, 300*time.Millisecond)
	for range 1000 {
		calls.Go(func() { assert.ErrorIs(t, get(ctx, dead), context.DeadlineExceeded) })
	}
	calls.Wait()
	require.NoError(t, get(within(t, 5*time.Second), alive))
	results := driver.DoBatch(within(t, 3*time.Second), conn, []driver.Command{ // long enough for the answer of the other
		keyed(1, 1, "GET", dead), keyed(1, 1, "EXISTS", alive),
	})
	assert.ErrorIs(t, results[0].Err, context.DeadlineExceeded)
	assert.Equal(t, driver.Result{Value: int64(0)}, results[1], "the others' replies were lost")
}

// refusesLifetime checks that a client of any mode is not wrapped if it has a
// ConnLifetime.
func refusesLifetime(t *testing.T, opt rue.ClientOption) {
	opt.ConnLifetime = time.Hour
	client, err := rue.NewClient(opt)
	require.NoError(t, err)
	defer client.Close()
	_, err = rueidis.Wrap(client).Connect(t.Context())
	require.ErrorIs(t, err, driver.ErrUnsupported)
}

// rueidis takes a server for none of a Cluster's whatever keeps it from asking for the nodes. What the
// server has said is told, as nobody else would: nothing waits for a permission, nor for a wrong mode.
func TestClusterOfNone(t *testing.T) {
	srv := servertest.Single(t, servertest.Config("user", "ann", "on", ">pw", "~*", "+@all", "-cluster"))
	for user, want := range map[string]string{"": "ERR", "ann": "NOPERM"} {
		cfg := driver.Config{Mode: driver.ModeCluster, Network: "tcp", Addrs: []string{srv.Addr}, Username: user}
		if user != "" {
			cfg.Password = "pw"
		}
		_, err := connector(t, cfg).Connect(t.Context())
		refusal, ok := asServerError(err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, want, refusal.Code)
		assert.Contains(t, strings.ToLower(refusal.Error()), "cluster")
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	}
}

func TestSentinel(t *testing.T) {
	nodes := servertest.Sentinel(t, servertest.Password("pw"), servertest.SentinelConfig("requirepass", "spw"))
	conn := open(t, driver.Config{
		Mode: driver.ModeSentinel, Network: "tcp", Addrs: nodes.Addrs(), Master: servertest.MasterName,
		Password: "pw", SentinelPassword: "spw", DB: 1, Timeout: time.Second,
	})
	do(t, conn, "SET", "k", "v")
	topology, err := conn.(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	assert.Equal(t, driver.ModeSentinel, topology.Mode)
	before := topology.RunID
	refusesLifetime(t, rue.ClientOption{
		InitAddress: nodes.Addrs(), Password: "pw",
		Sentinel: rue.SentinelOption{MasterSet: servertest.MasterName, Password: "spw"},
	})
	sub := subscribe(t, conn, "ch")

	nodes.Failover()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		_, err := conn.Do(context.Background(), command("SET", "k", "again"))
		require.NoError(t, err)
	}, 20*time.Second, 50*time.Millisecond)
	_, err = sub.Receive(within(t, 20*time.Second))
	require.ErrorIs(t, err, driver.ErrGap)
	require.EqualValues(t, 1, do(t, conn, "PUBLISH", "ch", "m"))
	topology, err = conn.(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, before, topology.RunID)
}

// A message that is lost binds nobody to a former master.
func TestSentinelSaysNothingOfNewMaster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Cleanup(func() { time.Sleep(time.Minute) }) // rueidis may be about to ask the Sentinel once more
		const sentinel, former, master = "127.0.0.1:26379", "127.0.0.1:1", "127.0.0.1:2"
		wires := map[string]*wire.Wire{}
		for _, addr := range []string{sentinel, former, master} {
			memory := miniredis.NewMiniRedis()
			t.Cleanup(memory.Close)
			w := wire.New(func(context.Context) (net.Conn, error) { return memory.Dial() })
			t.Cleanup(func() { assert.NoError(t, w.Close()) })
			w.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer("*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"))
			w.On(wire.Match{Name: "SENTINEL", Arg: "sentinels", Times: -1}, wire.Answer("*0\r\n"))
			wires[addr] = w
		}
		names := func(port string) *wire.Rule {
			return wires[sentinel].On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer("*2\r\n$9\r\n127.0.0.1\r\n$1\r\n"+port+"\r\n"))
		}
		said := names("1")
		conn := open(t, driver.Config{
			Mode: driver.ModeSentinel, Network: "tcp", Addrs: []string{sentinel}, Master: "m",
			Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
				return wires[addr].Dial(ctx, network, addr)
			},
		})
		do(t, conn, "SET", "k", "v")
		require.Equal(t, 1, wires[former].Count(wire.Match{Name: "SET"}))
		said.Remove()
		names("2")
		time.Sleep(11 * time.Second)
		do(t, conn, "SET", "k", "v")
		assert.Equal(t, 1, wires[master].Count(wire.Match{Name: "SET"}))
	})
}

func TestSentinelUnknownMaster(t *testing.T) {
	nodes := servertest.Sentinel(t)
	_, err := connector(t, driver.Config{Mode: driver.ModeSentinel, Addrs: nodes.Addrs(), Master: "nobody"}).Connect(t.Context())
	require.ErrorContains(t, err, "no Sentinel knows the master's name")
	_, refused := asServerError(err)
	assert.False(t, refused)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

func TestDatabaseOutOfRange(t *testing.T) {
	cfg := single(servertest.Single(t).Addr)
	cfg.DB = 999
	_, err := connector(t, cfg).Connect(t.Context())
	refusal, ok := asServerError(err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, driver.NewServerError("ERR DB index is out of range"), refusal)
}

// An ACL that forbids everything but the locks' own commands is enough.
func TestACL(t *testing.T) {
	srv := servertest.Single(t, servertest.Config("user", "ann", "on", ">pw", "~lock:*", "&lock:*",
		"-@all", "+set", "+evalsha", "+subscribe", "+publish"))
	cfg := single(srv.Addr)
	cfg.Username, cfg.Password = "ann", "pw"
	conn := open(t, cfg)
	do(t, conn, "SET", "lock:k", "v")
	_, err := conn.Do(t.Context(), command("GET", "lock:k"))
	refusal, ok := asServerError(err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, "NOPERM", refusal.Code)

	topology, err := conn.(driver.Describer).Describe(t.Context())
	require.NoError(t, err)
	assert.Empty(t, topology.RunID)
	sub := subscribe(t, conn, "lock:ch") // UNSUBSCRIBE is forbidden
	require.EqualValues(t, 1, do(t, conn, "PUBLISH", "lock:ch", "m"))
	_, err = sub.Receive(t.Context())
	require.NoError(t, err)
	servertest.SkipBefore(t, 6, 2, "a rule for channels")
	refusal, ok = asServerError(sub.Add(t.Context(), "other"))
	require.True(t, ok)
	assert.Equal(t, "NOPERM", refusal.Code)
}
