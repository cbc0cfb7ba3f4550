package integration_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A slot moves to another node while its lock is held and waited for.
func TestClusterALockSurvivesTheMoveOfItsSlot(t *testing.T) {
	t.Parallel()
	survivesTheMove(t, func(t *testing.T, cluster *servertest.ClusterNodes, name string) {
		beginMove(t, cluster, name).end(t)
	})
}

// The same where the servers do all of it, as from Redis 8.4 and Valkey 9.0 on.
func TestClusterALockSurvivesTheAtomicMoveOfItsSlot(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t)
	knows := func(command string) bool { return do(t, server, "COMMAND", "INFO", command).([]any)[0] != nil }
	redis, valkey := knows("cluster|migration"), knows("cluster|migrateslots")
	if !redis && !valkey {
		t.Skip("NOT TESTED WITH A SLOT THAT IS MOVED BY THE SERVERS: this one cannot do that")
	}
	survivesTheMove(t, func(t *testing.T, cluster *servertest.ClusterNodes, name string) {
		m := planMove(t, cluster, name)
		if redis {
			do(t, m.to, "CLUSTER", "MIGRATION", "IMPORT", m.slot, m.slot)
		} else {
			do(t, m.from, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", m.slot, m.slot, "NODE", m.id)
		}
		eventually(t, "the slot has moved", func() bool { return len(m.left(t)) == 0 })
	})
}

// survivesTheMove moves a slot to another node while its lock is held and waited for.
func survivesTheMove(t *testing.T, move func(t *testing.T, cluster *servertest.ClusterNodes, name string)) {
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		cluster := servertest.Cluster(t, 2)
		a, b := d.clusterClient(t, cluster.Addrs(), locker.TTL(renewedTTL), locker.Fenced()), d.clusterClient(t, cluster.Addrs(), locker.Fenced())
		lease := mustTryLock(t, a.Mutex("moving"))
		waiting := goLockWaiting(t, soon(t), b.Mutex("moving"), a)
		move(t, cluster, "moving")
		require.True(t, survivesRenewals(lease, 3), "%v", lease.Err())
		unlocked := time.Now()
		require.NoError(t, lease.Unlock(soon(t)))
		next := had(t, waiting)
		assert.Less(t, next.at.Sub(unlocked), pollBound)
		assert.Greater(t, next.lease.Token(), lease.Token())
		require.NoError(t, next.lease.Unlock(soon(t)))
	})
}

// While a slot moves, a script that has several keys is refused wherever one of them is not, as
// that of a queue which nobody waits in. Whoever asks is told that, and not that others have the
// lock or that it is gone; nobody loses anything; and all that was wanted comes true when it is over.
func TestClusterASlotOnItsWayIsUnavailableAndLosesNothing(t *testing.T) {
	t.Parallel()
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		cluster := servertest.Cluster(t, 2)
		c, other := d.clusterClient(t, cluster.Addrs(), locker.TTL(quorumTTL)), d.clusterClient(t, cluster.Addrs())
		var kept, given []*locker.Lease
		var records []string
		detached, waiting := map[string]string{}, map[string]<-chan lockResult{}
		take := func(kind lockKind, what string) *locker.Lease {
			lease := mustTryLock(t, kind.on(c, slotmate(kind, what)))
			records = append(records, lease.Name())
			return lease
		}
		for _, kind := range lockKinds {
			id, err := take(kind, "detached").Detach(soon(t), time.Minute)
			require.NoError(t, err)
			detached[kind.name] = id
			given = append(given, take(kind, "given"))
			held := mustTryLock(t, kind.against(c, slotmate(kind, "kept")))
			records = append(records, held.Name())
			waiting[kind.name] = goLockWaiting(t, within(t, 3*patience), kind.on(other, held.Name()), c)
			kept = append(kept, held)
		}

		m := beginMove(t, cluster, slotmate(plainKind, ""))
		assertRenewed(t, kept, "nothing has moved")
		m.carry(t, records...) // without the fences and queues
		eventually(t, "renewals are refused", func() bool {
			refused := map[string]bool{}
			for _, info := range c.Snapshot().Leases {
				reply, ok := asServerError(info.RenewErr)
				refused[info.Name] = ok && reply.Code == "TRYAGAIN"
			}
			// That of a plain mutex has one key.
			return !slices.ContainsFunc(kept[1:], func(lease *locker.Lease) bool { return !refused[lease.Name()] })
		})
		assertTryAgain := func(err error, what string) {
			t.Helper()
			assert.ErrorIs(t, err, locker.ErrUnavailable, what)
			for _, wrong := range []error{locker.ErrLocked, locker.ErrNotHeld, locker.ErrForeign, locker.ErrInvalid} {
				assert.NotErrorIs(t, err, wrong, what)
			}
			reply, ok := asServerError(err)
			assert.True(t, ok && reply.Code == "TRYAGAIN", "%s: %v", what, err)
		}
		var told sync.WaitGroup
		extended, unlocked := make([]error, len(lockKinds)), make([]error, len(lockKinds))
		for i := range lockKinds { // which try for as long as they may
			ctx := within(t, time.Second)
			told.Go(func() { extended[i] = kept[i].Extend(ctx, quorumTTL) })
			told.Go(func() { unlocked[i] = given[i].Unlock(ctx) })
		}
		for i, kind := range lockKinds {
			if kind.name != plainKind.name { // which is taken by its record alone
				_, err := kind.on(other, slotmate(kind, "free")).TryLock(soon(t))
				assertTryAgain(err, "TryLock of a free one, "+kind.name)
			}
			_, err := kind.against(other, kept[i].Name()).TryLock(soon(t))
			assertTryAgain(err, "TryLock, "+kind.name)
			_, err = kind.on(other, slotmate(kind, "detached")).Attach(soon(t), detached[kind.name])
			assertTryAgain(err, "Attach, "+kind.name)
		}
		told.Wait()
		for i, kind := range lockKinds {
			assertTryAgain(unlocked[i], "Unlock, "+kind.name)
			if kind.name == plainKind.name {
				assert.NoError(t, extended[i])
			} else {
				assertTryAgain(extended[i], "Extend, "+kind.name)
			}
		}
		for _, lease := range kept {
			assert.True(t, lease.Valid(), "%s: %v", lease.Name(), lease.Err())
		}
		m.carry(t, m.left(t)...)
		assertRenewed(t, kept, "all has moved")
		m.end(t)

		assertRenewed(t, kept, "the move is over")
		for i, kind := range lockKinds {
			require.NoError(t, kept[i].Unlock(soon(t)), kind.name)
			require.NoError(t, had(t, waiting[kind.name]).lease.Unlock(soon(t)), kind.name)
			lease, err := kind.on(other, slotmate(kind, "detached")).Attach(soon(t), detached[kind.name])
			require.NoError(t, err, kind.name)
			require.NoError(t, lease.Unlock(soon(t)), kind.name)
			require.NoError(t, mustLock(t, kind.against(other, slotmate(kind, "given"))).Unlock(soon(t)), kind.name)
		}
		for _, node := range cluster.Nodes {
			assertMortal(t, node)
			assert.Empty(t, keys(t, node))
		}
	})
}

// A replica is told what leaves with a slot, and (by Redis) not that the slot is on its way: once it is the
// master, be it by an orderly failover, the locks that have left are forgotten. Tokens grow all the same, and who
// holds such a lock hears that it is lost.
func TestClusterAFailoverForgetsTheLocksOfASlotOnItsWay(t *testing.T) {
	t.Parallel()
	cluster := servertest.ReplicatedCluster(t, 3)
	for _, d := range drivers {
		if !d.cluster {
			continue
		}
		a := d.clusterClient(t, cluster.Addrs(), locker.TTL(2*quorumTTL), locker.Fenced()) // a takeover may take seconds
		b := d.clusterClient(t, cluster.Addrs(), locker.Fenced())
		t.Run(d.name, func(t *testing.T) {
			// Of a shard that no other driver has had.
			name := unmovedName(t, cluster)
			held := mustTryLock(t, a.Mutex(name))
			m := beginMove(t, cluster, name)
			m.carry(t, m.left(t)...)
			heir := cluster.Replicas[slices.Index(cluster.Nodes, m.from)]
			takeOver(t, heir, m.from)
			if strings.Contains(do(t, heir, "CLUSTER", "NODES").(string), "["+m.slot+"->-") {
				t.Skip("the server tells its replica of slots on their way")
			}
			second := mustLock(t, b.Mutex(name))
			assert.Greater(t, second.Token(), held.Token())
			assert.ErrorIs(t, lossOf(t, held), locker.ErrNotHeld)
			require.NoError(t, second.Unlock(soon(t)))
		})
	}
}

// unmovedName is one that a node has which is still a master.
func unmovedName(t *testing.T, cluster *servertest.ClusterNodes) string {
	t.Helper()
	for i := 0; ; i++ {
		name := numbered("moving", i)
		if cluster.NodeOf(name).InfoSays("replication", "role:master") == nil {
			return name
		}
	}
}

// takeOver makes a replica the master, with that one's help. The servers give an attempt up after five seconds.
func takeOver(t *testing.T, replica, master *servertest.Server) {
	t.Helper()
	eventually(t, "the replica is the master", func() bool {
		do(t, replica, "CLUSTER", "FAILOVER")
		return becomes(6*time.Second, func() bool { return replica.InfoSays("replication", "role:master") == nil })
	})
	eventually(t, "the former master knows", func() bool { return master.InfoSays("replication", "role:slave") == nil })
}

// A script that has deleted a key finds none of its own there as soon as the slot moves, and stops. What
// it has done by then counts.
func TestClusterALockIsBrokenInASlotThatBeginsToMove(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 2)
	c := drivers[0].clusterClient(t, cluster.Addrs())
	for _, kind := range lockKinds {
		held := mustLock(t, kind.on(c, slotmate(kind, "broken")))
		// Whoever waited is dead.
		const reservation = "00112233445566778899aabbccddeeff"
		node, queue, entries := cluster.NodeOf(held.Name()), "__golocker:q:{moving}:"+held.Name(), "__golocker:w:{moving}:"+held.Name()
		do(t, node, "ZADD", queue, "1", reservation)
		do(t, node, "HSET", entries, reservation, "gl1|0|0|1|1|m|"+reservation+"|1|0|||")
		for _, key := range []string{queue, entries} {
			do(t, node, "PEXPIRE", key, "60000")
		}
	}
	m := beginMove(t, cluster, slotmate(plainKind, ""))
	for _, kind := range lockKinds {
		holders, err := c.ForceRelease(soon(t), slotmate(kind, "broken"))
		assert.NoError(t, err, kind.name)
		assert.Len(t, holders, 1, kind.name)
	}
	m.end(t)
	assert.Empty(t, keys(t, m.to))
}

// Slots are moved from the first on. Whoever lists the locks meanwhile sees those of the others still.
func TestClusterLocksAreListedWhileTheFirstSlotOfTheirMasterMoves(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 2)
	c := drivers[0].clusterClient(t, cluster.Addrs())
	var names []string
	for i := range 20 {
		names = append(names, mustLock(t, c.Mutex(numbered("k", i))).Name())
	}
	const first = "{3560}" // slot 0
	require.Zero(t, driver.Slot(first))
	m := beginMove(t, cluster, first)
	assert.ElementsMatch(t, names, namesListed(t, c, ""))
	m.end(t)
}

// assertRenewed waits until each of the leases has been renewed.
func assertRenewed(t *testing.T, leases []*locker.Lease, when string) {
	t.Helper()
	var all sync.WaitGroup
	for _, lease := range leases {
		all.Go(func() { assert.True(t, survivesRenewals(lease, 1), "%s, %s: %v", when, lease.Name(), lease.Err()) })
	}
	all.Wait()
}

// slotmate is a name of which the kind's every lock is in one slot.
func slotmate(kind lockKind, what string) string { return "{moving}" + kind.name + " " + what }

// To a client that takes a node for a server of its own, a slot on its way is away for a while, and then
// for good.
func TestASlotThatLeavesANodeThatWasGivenAsAServer(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 2)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		name := "to be moved by " + d.name
		m := beginMove(t, cluster, name)
		c := d.client(t, m.from.Addr)
		_, err := c.Mutex(name).TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrUnavailable)
		assert.NotErrorIs(t, err, locker.ErrInvalid)
		requireCode(t, err, "ASK")
		waiting := goLock(soon(t), c.Mutex(name))
		m.end(t)
		assert.ErrorIs(t, (<-waiting).err, locker.ErrInvalid)
	})
}

// A move is that of a slot from one master to another, as redis-cli --cluster reshard makes it.
type move struct {
	slot     string
	from, to *servertest.Server
	id       string // of to
}

// planMove chooses another master for the slot of a name.
func planMove(t *testing.T, cluster *servertest.ClusterNodes, name string) move {
	t.Helper()
	m := move{slot: strconv.Itoa(driver.Slot(name)), from: cluster.NodeOf(name), to: cluster.Nodes[0]}
	if m.to == m.from {
		m.to = cluster.Nodes[1]
	}
	m.id = idOf(t, m.to)
	return m
}

func idOf(t *testing.T, s *servertest.Server) string {
	t.Helper()
	return do(t, s, "CLUSTER", "MYID").(string)
}

// beginMove has both masters know that the slot of a name moves. No key does yet.
func beginMove(t *testing.T, cluster *servertest.ClusterNodes, name string) move {
	t.Helper()
	m := planMove(t, cluster, name)
	do(t, m.to, "CLUSTER", "SETSLOT", m.slot, "IMPORTING", idOf(t, m.from))
	do(t, m.from, "CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.id)
	return m
}

// left are the keys that have not moved.
func (m move) left(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, key := range do(t, m.from, "CLUSTER", "GETKEYSINSLOT", m.slot, "1000").([]any) {
		names = append(names, fmt.Sprint(key))
	}
	return names
}

// carry moves keys.
func (m move) carry(t *testing.T, keys ...string) {
	t.Helper()
	for _, key := range keys {
		do(t, m.from, "MIGRATE", "127.0.0.1", m.to.Port(), key, "0", "5000")
	}
}

// end moves the rest, and has both masters know that the slot has moved.
func (m move) end(t *testing.T) {
	t.Helper()
	m.carry(t, m.left(t)...)
	for _, s := range []*servertest.Server{m.to, m.from} {
		do(t, s, "CLUSTER", "SETSLOT", m.slot, "NODE", m.id)
	}
}
