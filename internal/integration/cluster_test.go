package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// eachClusterWay runs f for every driver that can do Cluster, opened and wrapped.
func eachClusterWay(t *testing.T, f func(t *testing.T, d driverUnderTest)) {
	t.Helper()
	eachWayOf(t, func(d driverUnderTest) bool { return d.cluster }, f)
}

// clusterClient returns a client that is given the addresses of some nodes.
func (d driverUnderTest) clusterClient(t *testing.T, addrs []string, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	return newClient(t, d.clusterConnector(t, addrs), opts...)
}

func (d driverUnderTest) clusterConnector(t *testing.T, addrs []string) driver.Connector {
	t.Helper()
	if d.wrapped {
		return d.wrapCluster(t, addrs)
	}
	return d.byDSN(t, "redis://"+strings.Join(addrs, ",")+"?mode=cluster")
}

// difficultNames are names whose hash tags are not what they seem.
var difficultNames = []string{
	"plain", "orders:{1}", "{tag}x", "x{tag}", "x{tag}y{other}", "{", "}", "{}", "}{", "{{", "}}", "a}b", "a{b", "a{}b",
	"{}{x}", "{}x{y}", "{{x}}", "{x}}", "{{x}", "x{{}}", "a}b{c}", "{a", "a}", "{\x00}", "\x00\xff\r\n", " ", "{ }", "*", "[a-z]?",
	"{a}{b}", "a{b}c}d", "}{a}", "ä{ö}ü", "{tag", "tag}", "__golocker", strings.Repeat("x", 1000), "{" + strings.Repeat("y", 990) + "}",
}

// "others: order:{1} fails on a cluster". Each name is locked with a fencing
// token, waited for and handed on between clients that know different nodes; what
// is stored for it lies in the name's own slot, by the servers' word.
func TestClusterEveryNameLocksWakesAndKeepsToItsSlot(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3)
	assert.NotEqual(t, cluster.NodeOf("a"), cluster.NodeOf("b"))
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		holder := d.clusterClient(t, cluster.Addrs()[:1], locker.Fenced())
		waiter := newCountedClient(t, d.clusterConnector(t, cluster.Addrs()[1:2]), locker.Fenced())
		third := d.clusterClient(t, cluster.Addrs()[2:], locker.Fenced())
		for _, name := range difficultNames {
			var first locker.Token
			lease := waiter.requireWoken(t, waiter.Mutex(name), func() *locker.Lease { return mustTryLock(t, holder.Mutex(name)) }, func(held *locker.Lease) {
				first = held.Token()
				assertWaiters(t, third, name, 1)
				assertOneSlot(t, cluster, name)
			})
			assert.Greater(t, lease.Token(), first, "%q", name)
			_, err := third.Mutex(name).TryLock(soon(t))
			assert.ErrorIs(t, err, locker.ErrLocked, "%q", name)
			mustUnlock(t, lease)
		}
		for _, node := range cluster.Nodes {
			assert.Empty(t, keys(t, node))
			node.Flush()
		}
	})
}

// assertOneSlot checks where the record and the side keys of a lock lie.
func assertOneSlot(t *testing.T, cluster *servertest.ClusterNodes, name string) {
	var found []string
	for _, node := range cluster.Nodes {
		list, err := node.Do("KEYS", "*")
		if !assert.NoError(t, err) {
			return
		}
		for _, key := range list.([]any) {
			key := key.(string)
			if key != name && !(strings.HasPrefix(key, "__golocker:") && strings.HasSuffix(key, "}:"+name)) {
				continue
			}
			found = append(found, key)
			want, err := node.Do("CLUSTER", "KEYSLOT", name)
			assert.NoError(t, err)
			got, err := node.Do("CLUSTER", "KEYSLOT", key)
			assert.NoError(t, err)
			assert.Equal(t, want, got, "the slot of %q is not that of %q", key, name)
			assert.Equal(t, want, int64(driver.Slot(name)), "%q", name)
			assert.Equal(t, cluster.NodeOf(name), node, "%q", key)
		}
	}
	// The record, the fence, the queue and its entries.
	assert.GreaterOrEqual(t, len(found), 4, "%q: found %q", name, found)
}

// Redisson: "a dead shard starves renewals of the others".
func TestClusterAFrozenShardDoesNotDelayTheRenewalsOfTheOthers(t *testing.T) {
	t.Parallel()
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		const (
			ttl = 4 * time.Second
			// Renewed at a third of the TTL, a lease never has less left than this
			// and a generous half second for the renewal.
			least = 1800 * time.Millisecond
		)
		cluster := servertest.Cluster(t, 3)
		c := d.clusterClient(t, cluster.Addrs(), locker.TTL(ttl))
		var frozen, others []*locker.Lease
		for i := range 30 {
			name := numbered("k", i)
			lease := mustTryLock(t, c.Mutex(name))
			if cluster.NodeOf(name) == cluster.Nodes[0] {
				frozen = append(frozen, lease)
			} else {
				others = append(others, lease)
			}
		}
		require.NotEmpty(t, frozen)
		require.NotEmpty(t, others)
		cluster.Nodes[0].Pause()
		t.Cleanup(cluster.Nodes[0].Resume)
		timers := watchTimers(t)
		lowest := ttl
		lasts(t, ttl, func() {
			for _, lease := range others {
				require.NoError(t, lease.Err())
				lowest = min(lowest, time.Until(lease.Deadline()))
			}
		})
		starved := timers.most()
		assert.Greater(t, lowest+starved, least, "renewals were late, and timers up to %v", starved)
		for _, lease := range frozen {
			assert.ErrorIs(t, lease.Err(), locker.ErrLost)
		}
		// Nor does it keep anybody from taking and releasing locks elsewhere.
		for _, lease := range others {
			took := timed(func() { assert.NoError(t, lease.Unlock(soon(t))) })
			assert.Less(t, took, pollBound)
			took = timed(func() {
				again, err := c.Mutex(lease.Name()).TryLock(soon(t))
				if assert.NoError(t, err) {
					assert.NoError(t, again.Unlock(soon(t)))
				}
			})
			assert.Less(t, took, pollBound)
		}
	})
}

// A node that is down takes its own slots with it only, and gives them back.
func TestClusterANodeThatIsDownIsUnavailableNotLocked(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3)
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		c := d.clusterClient(t, cluster.Addrs())
		names := map[*servertest.Server]string{}
		for i := 0; len(names) < 3; i++ {
			names[cluster.NodeOf(numbered("k", i))] = numbered("k", i)
		}
		for _, name := range names {
			require.NoError(t, mustTryLock(t, c.Mutex(name)).Unlock(soon(t)))
		}
		down := cluster.Nodes[1]
		down.Kill()
		_, err := c.Mutex(names[down]).TryLock(within(t, 5*time.Second))
		assert.Error(t, err)
		assert.NotErrorIs(t, err, locker.ErrLocked)
		waiting := goLock(soon(t), c.Mutex(names[down]))
		for node, name := range names {
			if node != down {
				assert.NoError(t, mustLock(t, c.Mutex(name)).Unlock(soon(t)))
			}
		}
		down.Restart()
		cluster.AwaitOK()
		assert.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
	})
}

// A node of a Cluster that is taken for a server of its own has the locks of some names, and sends
// who wants the others where nobody goes: that does not pass.
func TestANodeOfAClusterThatIsGivenAsAServerSaysSo(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 2)
	node := cluster.Nodes[0]
	if node == cluster.NodeOf("a") {
		node = cluster.Nodes[1]
	}
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		c := d.client(t, node.Addr)
		for _, m := range []*locker.Mutex{c.Mutex("a"), c.Mutex("a", locker.Fenced())} {
			_, err := m.Lock(soon(t))
			assert.ErrorIs(t, err, locker.ErrInvalid)
			assert.NotErrorIs(t, err, locker.ErrUnavailable)
			assert.ErrorContains(t, err, "mode=cluster")
			requireCode(t, err, "MOVED")
		}
	})
}
