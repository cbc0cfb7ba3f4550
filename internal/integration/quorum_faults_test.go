package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// Five nodes, of which one and then another does not serve. Nothing waits for them,
// and no lease is lost.
func TestQuorumWithOneAndTwoNodesDown(t *testing.T) {
	t.Parallel()
	faults := map[string]func(q fleet, node int, ways ...lines){
		"dead": func(q fleet, node int, _ ...lines) { q.servers[node].Kill() },
		"hung": func(q fleet, node int, _ ...lines) { q.servers[node].Pause() },
		"slow": func(_ fleet, node int, ways ...lines) {
			for _, l := range ways {
				l[node].On(wire.Match{Times: -1}, wire.Delay(patience/2))
			}
		},
	}
	for name, begin := range faults {
		t.Run(name, func(t *testing.T) {
			eachFleet(t, 5, func(t *testing.T, q fleet) {
				// So long that it would show if somebody waited for a node.
				cfg := redlock.Config{NodeTimeout: patience}
				a, toA := q.wired(t, cfg)
				b, toB := q.wired(t, cfg)
				fresh, toFresh := q.wired(t, cfg)
				warm(t, a)
				warm(t, b)
				held := mustLock(t, a.Mutex("held", locker.TTL(quorumTTL)))
				var order tokenOrder
				for _, node := range []int{1, 4} {
					begin(q, node, toA, toB, toFresh)
					begun := time.Now()
					eachKindWorks(t, a, b, &order)
					took := time.Since(begun)
					assert.Less(t, took, patience/2, "something waits for node %d", node)
				}
				// It has yet to connect.
				order.next(t, mustLock(t, fresh.Mutex("k", locker.Fenced())))
				assert.True(t, survivesRenewals(held, 2), "%v", held.Err())
				mustUnlock(t, held)
			})
		})
	}
}

// extension is how far eachKindWorks extends its leases: longer than any TTL.
const extension = 40 * time.Second

// eachKindWorks takes a lock of each kind by one client, while the other is refused.
func eachKindWorks(t *testing.T, a, b *locker.Client, order *tokenOrder) {
	t.Helper()
	for _, kind := range lockKinds {
		lease := mustLock(t, kind.on(a, kind.name))
		_, err := kind.against(b, kind.name).TryLock(soon(t))
		require.ErrorIs(t, err, locker.ErrLocked, kind.name)
		require.NoError(t, lease.Extend(soon(t), extension), kind.name)
		mustUnlock(t, lease)
		next := mustLock(t, kind.on(b, kind.name))
		if lease.Token() != 0 {
			assert.Greater(t, next.Token(), lease.Token(), kind.name)
		}
		mustUnlock(t, next)
	}
	lease := mustLock(t, a.Mutex("k", locker.Fenced()))
	order.next(t, lease)
	mustUnlock(t, lease)
}

// Three of five nodes hold a lease; one of them restarts empty. With it, the two that
// have never heard of the lease would be a majority for somebody else.
func TestQuorumNodeThatRestartsEmptyHelpsNoSecondHolder(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		const longest, ttl = 4 * time.Second, 1500 * time.Millisecond
		cfg := redlock.Config{LongestTTL: longest, NodeTimeout: 2 * time.Second}
		a, toA := q.wired(t, cfg, locker.TTL(ttl))
		b := q.client(t, cfg, locker.TTL(ttl))
		warm(t, a)
		warm(t, b)
		toA[3].Partition()
		toA[4].Partition()
		lease := mustLock(t, a.Mutex("k", locker.Fenced()))
		eventually(t, "three nodes hold it", func() bool { return q.holding(t, "k") == 3 })

		q.servers[0].Restart()
		restarted := time.Now()
		next := <-goLock(soon(t), b.Mutex("k", locker.Fenced()))
		stillValid := lease.Valid()
		require.NoError(t, next.err)
		assert.False(t, stillValid, "two holders")
		assert.ErrorIs(t, lossOf(t, lease), locker.ErrLost)
		assert.Greater(t, next.lease.Token(), lease.Token())
		toA[3].KillAll()
		toA[4].KillAll()
		toA.heal()
		assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrNotHeld)
		assert.True(t, next.lease.Valid())
		mustUnlock(t, next.lease)

		// Until its time has come it is of no use, and then it is.
		q.servers[3].Kill()
		q.servers[4].Kill()
		if time.Since(restarted) < longest-time.Second {
			_, err := a.Mutex("other").TryLock(soon(t))
			requireNoMajority(t, err, 5)
			assert.ErrorContains(t, err, "the node is new")
		}
		other := mustLock(t, a.Mutex("other", locker.Fenced()))
		assert.Greater(t, time.Since(restarted), longest, "a node that may have forgotten a lease has voted")
		assert.Less(t, time.Since(restarted), longest+pollBound+next.at.Sub(restarted))
		mustUnlock(t, other)
		q.assertEmptyWithin(t, ttl+patience/4)
	})
}

// A renewal does not give a lock back to a node that has forgotten it, neither while
// that is in quarantine nor when it takes part again.
func TestQuorumNodeThatRestartsEmptyIsGivenNothingBack(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		const longest = 6 * time.Second
		c := q.client(t, redlock.Config{LongestTTL: longest, NodeTimeout: patience}, locker.TTL(renewedTTL))
		warm(t, c)
		kinds := []lockKind{plainKind, fencedKind, reentrantKind, readKind, writeKind}
		leases := map[string]*locker.Lease{}
		for _, kind := range kinds {
			leases[kind.name] = mustLock(t, kind.on(c, kind.name))
			eventually(t, "all nodes hold it", func() bool { return q.holding(t, kind.name) == 5 })
		}
		q.servers[2].Restart()
		rejoined := func() bool {
			// An unfenced one may leave a record on a node that does not count.
			lease := mustLock(t, c.Mutex("other", locker.Fenced()))
			defer mustUnlock(t, lease)
			return becomes(patience/40, func() bool { return exists(t, q.servers[2], "other") })
		}
		require.False(t, rejoined(), "it is in quarantine")
		eventually(t, "it takes part in new locks", rejoined)
		for _, kind := range kinds {
			lease := leases[kind.name]
			assert.True(t, survivesRenewals(lease, 2), "%s: %v", kind.name, lease.Err())
			assert.False(t, exists(t, q.servers[2], kind.name), "%s: a renewal has given it back", kind.name)
			assert.Equal(t, 4, q.holding(t, kind.name), kind.name)
			mustUnlock(t, lease)
		}
		q.assertEmptyWithin(t, renewedTTL+patience/4)
	})
}

// A node without memory renews what it holds, gives no locks, and is shown as that, until it
// would give some, though nobody asks it for one.
func TestQuorumNodeWithoutMemoryIsShownUntilItHasSome(t *testing.T) {
	eachFleet(t, 3, func(t *testing.T, q fleet) {
		full := q.servers[0]
		c := q.client(t, unhurried, locker.TTL(renewedTTL))
		leader := mustLock(t, c.Mutex("leader", locker.Reentrant()))
		eventually(t, "all nodes hold it", func() bool { return q.holding(t, "leader") == 3 })
		do(t, full, "CONFIG", "SET", "maxmemory", "1")
		t.Cleanup(func() { do(t, full, "CONFIG", "SET", "maxmemory", "0") })
		mustUnlock(t, mustLock(t, c.Mutex("other", locker.Reentrant())))
		shown := func() error { return c.Nodes()[0].Err }
		eventually(t, "it is shown", func() bool { return shown() != nil })
		for range 3 {
			assert.True(t, survivesRenewals(leader, 1), "%v", leader.Err())
			assert.ErrorContains(t, shown(), "OOM")
		}
		do(t, full, "CONFIG", "SET", "maxmemory", "0")
		eventually(t, "it is shown no more", func() bool { return shown() == nil })
		mustUnlock(t, leader)
	})
}

// Replies of a minority, and then of a majority, are lost.
func TestQuorumLostRepliesCostNoLock(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		c, through := q.wired(t, locker.TTL(3*time.Second))
		warm(t, c)
		var order tokenOrder
		for _, lost := range []int{1, 2, 3, 5} {
			for _, kind := range []lockKind{plainKind, fencedKind, reentrantKind, writeKind} {
				name := numbered(kind.name, lost)
				through[:lost].each(wire.Match{Name: "EVALSHA", Arg: name}, wire.CutReply)
				lease, err := kind.on(c, name).TryLock(soon(t))
				require.NoError(t, err, "%s: a free lock, %d replies lost", name, lost)
				require.True(t, lease.Valid())
				through[:lost].each(wire.Match{Name: "EVALSHA", Arg: name}, wire.HalfReply)
				require.NoError(t, lease.Extend(soon(t), 4*time.Second), name)
				through[:lost].each(wire.Match{Name: "EVALSHA", Arg: name}, wire.CutReply)
				require.NoError(t, lease.Unlock(soon(t)), name)
			}
			lease := mustLock(t, c.Mutex("k", locker.Fenced()))
			order.next(t, lease)
			through[:lost].each(wire.Match{Name: "EVALSHA", Arg: "k"}, wire.CutReply)
			mustUnlock(t, lease)
		}
		// At the end nobody is left behind on a node that does not know of its release.
		q.assertEmptyWithin(t, 4*time.Second+patience/4)
	})
}

// The replies of renewals are lost, each time at other nodes.
func TestQuorumLostRepliesOfRenewalsLoseNoLease(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		c, through := q.wired(t, locker.TTL(quorumTTL))
		warm(t, c)
		lease := mustLock(t, c.Mutex("k", locker.Fenced()))
		for i := range 3 {
			three := lines{through[i], through[i+1], through[(i+3)%5]}
			rules := three.each(wire.Match{Name: "EVALSHA", Arg: "k"}, wire.CutReply)
			for _, r := range rules {
				select {
				case <-r.Happened():
				case <-lease.Context().Done():
					require.NoError(t, context.Cause(lease.Context()))
				}
			}
		}
		assert.True(t, survivesRenewals(lease, 1), "%v", lease.Err())
		mustUnlock(t, lease)
		q.assertEmptyWithin(t, quorumTTL+patience/4)
	})
}
