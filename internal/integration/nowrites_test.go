package integration_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// What a server knows that takes no writes may be of another time: a former master tells of
// holders who are long gone.
func TestAServerThatTakesNoWritesNeverSaysLocked(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"READONLY", "NOREPLICAS", "MISCONF"} {
		t.Run(code, func(t *testing.T) {
			if code == "NOREPLICAS" {
				servertest.SkipBefore(t, 7, 0, "a script that is refused for want of replicas")
			}
			eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
				assertNeverLocked(t, code, func() *locker.Client { return d.client(t, srv.Addr) },
					func() { phases[code].begin(t, srv) }, func() { phases[code].end(t, srv) })
			})
		})
	}
}

// A node that is cut off from its Cluster goes on to answer what reads, where it is set to. A
// script counts as that until it writes, which is refused in other words than a SET is.
func TestClusterANodeThatIsDownAndLetsReadNeverSaysLocked(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 1, servertest.Config("cluster-allow-reads-when-down", "yes"), servertest.Config("cluster-require-full-coverage", "yes"))
	node := cluster.Nodes[0]
	const missing = "0" // a slot of none of the locks
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		assertNeverLocked(t, "CLUSTERDOWN", func() *locker.Client { return d.clusterClient(t, cluster.Addrs()) },
			func() {
				do(t, node, "CLUSTER", "DELSLOTS", missing)
				awaitClusterState(t, node, "fail")
			},
			func() {
				do(t, node, "CLUSTER", "ADDSLOTS", missing)
				awaitClusterState(t, node, "ok")
			})
		node.Flush()
	})
}

func awaitClusterState(t *testing.T, node *servertest.Server, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := node.Do("CLUSTER", "INFO")
		return err == nil && strings.Contains(fmt.Sprint(info), "cluster_state:"+state)
	}, 10*time.Second, 10*time.Millisecond)
}

// assertNeverLocked has a server take no writes, of which replies tell by code, while others
// have locks of all kinds, and some wait.
func assertNeverLocked(t *testing.T, code string, client func() *locker.Client, begin, end func()) {
	t.Helper()
	holder, waiting, other := client(), client(), client()
	connect(t, other)
	ctx, cancel := context.WithCancel(soon(t))
	defer cancel()
	waiters := map[string]<-chan lockResult{}
	for _, kind := range lockKinds {
		mustTryLock(t, kind.against(holder, kind.name))
		waiters[kind.name] = goLockWaiting(t, ctx, kind.on(waiting, kind.name), holder)
	}
	begin()
	defer end()
	for _, kind := range lockKinds {
		_, err := kind.on(other, kind.name).TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrUnavailable, kind.name)
		assert.NotErrorIs(t, err, locker.ErrLocked, kind.name)
		requireCode(t, err, code)
	}
	lasts(t, 3*time.Second, func() {}) // waiters look every second
	cancel()
	for name, waiter := range waiters {
		r := <-waiter
		assert.ErrorIs(t, r.err, context.Canceled, name)
		assert.ErrorIs(t, r.err, locker.ErrUnavailable, name)
		assert.NotErrorIs(t, r.err, locker.ErrLocked, name)
	}
}

// Whoever waits for a lock that is always held would else never learn that the name leads
// to another master, and stand in no queue that anybody serves.
func TestWaiterAtAFormerMasterComesToTheNewOne(t *testing.T) {
	t.Parallel()
	for _, d := range []driver.Driver{goredis.Driver{}, redigo.Driver{}, rueidis.Driver{}} {
		for _, kind := range lockKinds {
			t.Run(fmt.Sprintf("%T %s", d, kind.name), func(t *testing.T) {
				t.Parallel()
				m := newTwoMasters(t)
				c, there := newClient(t, m.connector(t, d)), newClient(t, wrapGoRedis(t, m.master.Addr))
				connect(t, c)
				held := mustTryLock(t, kind.against(there, "k"))
				m.fail(t)
				waiting := goLockWaiting(t, soon(t), kind.on(c, "k"), there)
				require.NoError(t, held.Unlock(soon(t)))
				require.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
			})
		}
	}
}
