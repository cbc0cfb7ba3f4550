package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// The conformance suite cannot be run on a Cluster: MOVED leads a client around the
// suite's wire. This is what matters of it there: that the scripts of every kind of
// lock find all their keys on one node, whatever the name, and that a grant reaches
// a waiter whose subscription is on another node.
func TestLocksOnCluster(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3)
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		// Each client knows another node at first.
		c := clusterClients{
			a: d.clusterClient(t, cluster.Addrs()[:1], locker.Fenced(), locker.Label("a")),
			b: d.clusterClient(t, cluster.Addrs()[1:2], locker.Fenced(), locker.Label("b")),
			c: d.clusterClient(t, cluster.Addrs()[2:], locker.Fenced(), locker.Label("c")),
		}
		t.Run("names", func(t *testing.T) {
			for _, name := range difficultNames {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					c.queue(t, name)
					c.reentry(t, name)
					c.readersAndWriter(t, name)
					for _, mode := range []locker.Option{locker.Fenced(), locker.Reentrant(), locker.ForReading(), locker.ForWriting()} {
						c.handover(t, name, mode)
					}
				})
			}
		})
		for _, node := range cluster.Nodes {
			assertMortal(t, node)
			assert.Empty(t, keys(t, node))
			node.Flush()
		}
	})
}

type clusterClients struct{ a, b, c *locker.Client }

// untold makes a waiter that finds out nothing by itself.
func untold() locker.Option { return locker.Retry(locker.Constant(time.Hour)) }

// queue hands a mutex on through two waiters, in their order.
func (c clusterClients) queue(t *testing.T, name string) {
	held := mustTryLock(t, c.a.Mutex(name))
	second := goLockWaiting(t, soon(t), c.b.Mutex(name, untold()), c.a)
	third := goLockWaiting(t, soon(t), c.c.Mutex(name, untold()), c.a)
	for _, waiting := range []<-chan lockResult{second, third} {
		token := held.Token()
		require.NoError(t, held.Unlock(soon(t)))
		held = had(t, waiting).lease
		assert.Greater(t, held.Token(), token)
		_, err := c.a.Mutex(name).TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrLocked)
	}
	require.NoError(t, held.Unlock(soon(t)))
}

// reentry takes a lock again on the same client and on another one.
func (c clusterClients) reentry(t *testing.T, name string) {
	job := []locker.Option{locker.Reentrant(), locker.As(locker.NamedOwner("job"))}
	leases := []*locker.Lease{mustTryLock(t, c.a.Mutex(name, job...)), mustTryLock(t, c.a.Mutex(name, job...))}
	waiting := goLockWaiting(t, soon(t), c.c.Mutex(name, locker.Reentrant(), untold()), c.a)
	leases = append(leases, mustTryLock(t, c.b.Mutex(name, job...)))
	assert.Equal(t, leases[0].Token(), leases[1].Token())
	assert.Greater(t, leases[2].Token(), leases[0].Token())
	_, err := c.a.Mutex(name).TryLock(soon(t))
	assert.ErrorIs(t, err, locker.ErrForeign)
	for _, lease := range leases {
		require.NoError(t, lease.Extend(soon(t), time.Minute))
		require.NoError(t, lease.Unlock(soon(t)))
	}
	next := had(t, waiting).lease
	assert.Greater(t, next.Token(), leases[2].Token())
	require.NoError(t, next.Unlock(soon(t)))
}

// readersAndWriter lets readers in together, and a writer behind them; one reader
// upgrades, and then downgrades.
func (c clusterClients) readersAndWriter(t *testing.T, name string) {
	writer := mustTryLock(t, c.a.Mutex(name, locker.ForWriting()))
	first := goLockWaiting(t, soon(t), c.b.Mutex(name, locker.ForReading(), untold()), c.a)
	second := goLockWaiting(t, soon(t), c.c.Mutex(name, locker.ForReading(), untold()), c.a)
	last := goLockWaiting(t, soon(t), c.a.Mutex(name, locker.ForWriting(), untold()), c.b)
	require.NoError(t, writer.Unlock(soon(t)))
	r1, r2 := had(t, first).lease, had(t, second).lease
	assert.Equal(t, writer.Token(), r1.Token())
	assert.Equal(t, writer.Token(), r2.Token())
	_, err := c.a.Mutex(name, locker.ForReading()).TryLock(soon(t))
	assert.ErrorIs(t, err, locker.ErrLocked, "a writer waits")
	require.NoError(t, r2.Unlock(soon(t)))
	upgraded, err := r1.TryUpgrade(soon(t))
	require.NoError(t, err)
	assert.Greater(t, upgraded.Token(), writer.Token())
	r3, err := upgraded.Downgrade(soon(t))
	require.NoError(t, err)
	require.NoError(t, r3.Unlock(soon(t)))
	require.NoError(t, r1.Unlock(soon(t)))
	next := had(t, last).lease
	assert.Greater(t, next.Token(), upgraded.Token())
	require.NoError(t, next.Unlock(soon(t)))
}

// handover detaches a lease and takes it up elsewhere.
func (c clusterClients) handover(t *testing.T, name string, mode locker.Option) {
	lease := mustTryLock(t, c.a.Mutex(name, mode))
	id, err := lease.Detach(soon(t), time.Minute)
	require.NoError(t, err)
	taken, err := c.b.Mutex(name, mode).Attach(soon(t), id)
	require.NoError(t, err)
	assert.Equal(t, lease.Owner(), taken.Owner())
	assert.GreaterOrEqual(t, taken.Token(), lease.Token())
	_, err = c.c.Mutex(name, mode).Attach(soon(t), id)
	assert.ErrorIs(t, err, locker.ErrTaken)
	require.NoError(t, taken.Unlock(soon(t)))
}
