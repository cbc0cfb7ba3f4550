package integration_test

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// heard collects the warnings of a client.
type heard struct {
	mu   sync.Mutex
	list []locker.Warning
}

func (h *heard) option() locker.ClientOption {
	return locker.Observe(locker.Observer{Warning: func(w locker.Warning) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.list = append(h.list, w)
	}})
}

func (h *heard) kinds() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	kinds := make([]string, len(h.list))
	for i, w := range h.list {
		kinds[i] = w.Kind
	}
	slices.Sort(kinds)
	return kinds
}

func (h *heard) eventually(t *testing.T, kinds ...string) {
	t.Helper()
	happens := becomes(patience, func() bool { return slices.Equal(h.kinds(), kinds) })
	assert.True(t, happens, "the warnings are %v, and not %v", h.kinds(), kinds)
}

func TestAClientWarnsOfEvictionAndOfAReplica(t *testing.T) {
	t.Parallel()
	master := servertest.Single(t)
	evicting := servertest.Single(t, servertest.Config("maxmemory-policy", "volatile-lru"), servertest.Config("maxmemory", "100mb"))
	replica := servertest.Single(t)
	host, port, err := net.SplitHostPort(master.Addr)
	require.NoError(t, err)
	do(t, replica, "REPLICAOF", host, port)
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		var h heard
		_, err := d.client(t, evicting.Addr, h.option()).Mutex(t.Name()).TryLock(soon(t))
		require.NoError(t, err)
		h.eventually(t, "eviction")

		var onReplica heard
		_, err = d.client(t, replica.Addr, onReplica.option()).Mutex(t.Name()).TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrUnavailable, "it is read-only")
		onReplica.eventually(t, "replica")
	})
}

// Managed services forbid INFO. Locks work as without an observer, and there is nothing
// to warn of.
func TestAClientThatMayNotAskDoesNotWarn(t *testing.T) {
	t.Parallel()
	_, dsn := restricted(t, "-info", "-config")
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		var h heard
		c := d.open(t, dsn, h.option())
		lease := mustLock(t, c.Mutex(t.Name()))
		require.NoError(t, lease.Unlock(soon(t)))
		require.NoError(t, c.Close())
		assert.Empty(t, h.kinds())
	})
}

func TestAClientWarnsOfEvictionInACluster(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3, servertest.Config("maxmemory-policy", "allkeys-lfu"))
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		var h heard
		mustTryLock(t, d.clusterClient(t, cluster.Addrs(), h.option()).Mutex(t.Name()))
		h.eventually(t, "eviction")
	})
}

// Each node of a quorum is looked at. That of the snapshots comes back from a crash with an
// older state.
func TestAQuorumWarnsOfPersistence(t *testing.T) {
	servers := servertest.Servers(t, 3)
	do(t, servers[1], "BGSAVE")
	eventuallyWithin(t, 3*patience, "a snapshot is on the disk", func() bool {
		return !strings.Contains(do(t, servers[1], "INFO", "persistence").(string), "rdb_last_bgsave_time_sec:-1")
	})
	q := newFleet(t, slices.Repeat([]driverUnderTest{drivers[0]}, 3), servers)
	var h heard
	mustTryLock(t, q.client(t, h.option()).Mutex("k"))
	h.eventually(t, "persistence")
	assert.Equal(t, 1, h.list[0].Node)

	var fenced heard
	mustTryLock(t, q.client(t, fenced.option(), locker.Fenced()).Mutex("fenced"))
	fenced.eventually(t, "persistence", "persistence", "persistence")

	// Its first snapshot is an hour away.
	do(t, servers[2], "CONFIG", "SET", "save", "3600 1")
	var to heard
	c := q.client(t, to.option())
	mustTryLock(t, c.Mutex("plain"))
	to.eventually(t, "persistence", "persistence")
	mustTryLock(t, c.Mutex("token", locker.Fenced()))
	to.eventually(t, "persistence", "persistence", "persistence")
}
