package integration_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// redsync: "with 2 of 3 nodes hung and a 200 ms ctx, Lock returned after 5 s and left an
// orphan key". The bar is 250 ms; the rest of the bound is for a machine with much
// else to do.
func TestQuorumTwoOfThreeHungLockReturnsWithItsContext(t *testing.T) {
	eachFleet(t, 3, func(t *testing.T, q fleet) {
		const ttl, bound, bar = 2 * time.Second, 400 * time.Millisecond, 250 * time.Millisecond
		c := q.client(t, redlock.Config{}, locker.TTL(ttl))
		warm(t, c)
		hung := q.servers[:2]
		for _, s := range hung {
			s.Pause()
		}
		var most time.Duration
		for i := range 5 {
			timers := watchTimers(t)
			for _, kind := range []lockKind{plainKind, fencedKind, writeKind} {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				took := timed(func() {
					_, err := kind.on(c, numbered(kind.name, i)).Lock(ctx)
					assert.ErrorIs(t, err, context.DeadlineExceeded)
					requireNoMajority(t, err, 3)
				})
				cancel()
				most = max(most, took)
				if took > bound && timers.late() {
					continue
				}
				assert.Less(t, took, bound)
			}
		}
		t.Logf("with a context of 200 ms Lock returned after %v at most; the bar is %v", most, bar)
		for _, s := range hung {
			s.Resume()
		}
		q.assertEmptyWithin(t, ttl+patience/4)
	})
}

// redsync: "with fail-fast and one hung node goroutines pile up at the request rate
// (59 k)". Everything counts here: those of the drivers, and of the calls themselves.
// It is not run beside other tests. The bar is 200; more stand about where they do not
// get a CPU.
func TestQuorumOneNodeHungGoroutinesAreBounded(t *testing.T) {
	const callers, bar, bound = 16, 200, 400
	for name, crew := range crews {
		t.Run(name, func(t *testing.T) {
			q := newFleet(t, crew, servertest.Servers(t, 5))
			before := runtime.NumGoroutine()
			c := q.client(t, redlock.Config{})
			warm(t, c)
			q.servers[2].Pause()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			most := make(chan int, 1)
			go func() { most <- mostGoroutines(ctx) }()
			var pairs atomic.Int64
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					m := c.Mutex(numbered("k", i))
					for ctx.Err() == nil {
						mustUnlock(t, mustLock(t, m))
						pairs.Add(1)
					}
				})
			}
			all.Wait()
			n := <-most - before
			t.Logf("%d goroutines at most, the bar is %d; %d pairs", n, bar, pairs.Load())
			assert.LessOrEqual(t, n, bound)
			assert.Greater(t, pairs.Load(), int64(3*callers), "calls wait for the node that hangs")
		})
	}
}

// mostGoroutines returns the greatest number seen until ctx ends, twice in a row: while the
// garbage collector frees the stacks of goroutines that have ended, they count.
func mostGoroutines(ctx context.Context) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	most, last := 0, 0
	for {
		select {
		case <-tick.C:
			n := runtime.NumGoroutine()
			most, last = max(most, min(n, last)), n
		case <-ctx.Done():
			return most
		}
	}
}

// Contenders give rounds up all the time, and with a node that hangs each may have to be
// ended there too. That must not hold up renewals.
func TestQuorumOneNodeHungContendersCostNoLease(t *testing.T) {
	q := newFleet(t, crews["mixed"], servertest.Servers(t, 5))
	c := q.client(t, redlock.Config{}, locker.TTL(3*time.Second))
	warm(t, c)
	held := []*locker.Lease{mustLock(t, c.Mutex("a")), mustLock(t, c.Mutex("b", locker.Fenced()))}
	q.servers[1].Pause()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			for ctx.Err() == nil {
				if lease, err := c.Mutex(numbered("contended", i%2), locker.Fenced()).TryLock(ctx); err == nil {
					_ = lease.Unlock(context.WithoutCancel(ctx))
				}
			}
		})
	}
	for _, lease := range held {
		assert.True(t, survivesRenewals(lease, 2), "%v", lease.Err())
	}
	cancel()
	all.Wait()
	for _, lease := range held {
		mustUnlock(t, lease)
	}
}

// In the steady state a lock costs one script at each node, or a SET, and its release
// another, fenced or not.
func TestQuorumAPairIsTwoScriptsAtEachNode(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		c := q.client(t)
		warm(t, c)
		const pairs = 20
		for _, kind := range lockKinds {
			m := kind.on(c, kind.name)
			lease := mustLock(t, m)
			eventually(t, "no request is on its way", func() bool { return q.holding(t, kind.name) == 5 })
			mustUnlock(t, lease)
			q.assertEmptyWithin(t, patience)
			before := q.scripts(t)
			for range pairs {
				lease := mustLock(t, m)
				eventually(t, "all nodes hold it", func() bool { return q.holding(t, kind.name) == 5 })
				mustUnlock(t, lease)
				eventually(t, "all nodes are free", func() bool { return q.holding(t, kind.name) == 0 })
			}
			for i, n := range q.scripts(t) {
				least, most := 2*pairs, 2*pairs
				if kind.name == plainKind.name { // the nodes that are asked first get a SET
					least = pairs
				}
				if kind.name == plainKind.name || kind.name == fencedKind.name { // a node that is slow makes others be asked
					most += pairs / 4
				}
				assert.GreaterOrEqual(t, n-before[i], least, "%s at node %d", kind.name, i)
				assert.LessOrEqual(t, n-before[i], most, "%s at node %d", kind.name, i)
			}
		}
	})
}

// scripts returns how many scripts each server has executed.
func (q fleet) scripts(t *testing.T) []int {
	t.Helper()
	var counts []int
	for _, s := range q.servers {
		n := calls(t, s)
		counts = append(counts, n["evalsha"]+n["eval"])
	}
	return counts
}

func TestQuorumRefusesWhatIsNone(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		addrs := q.addrs()
		for _, n := range []int{0, 1, 2, 4} {
			_, err := redlock.New(q.connectors(t, addrs[:n]))
			assert.ErrorIs(t, err, locker.ErrInvalid, "%d servers", n)
		}
		// The same server under another name; it need not tell its run id.
		for _, rule := range []string{"+info", "-info"} {
			for _, s := range q.servers {
				do(t, s, "ACL", "SETUSER", "default", rule)
			}
			twice := q.clientVia(t, []string{addrs[0], addrs[1], "localhost:" + q.servers[0].Port()})
			_, err := twice.Mutex("k").Lock(soon(t))
			assert.ErrorIs(t, err, locker.ErrInvalid)
			assert.ErrorContains(t, err, "nodes 0 and 2 of the quorum are the same server")
			q.assertEmptyWithin(t, patience)
		}
	})
}

func TestQuorumRefusesACluster(t *testing.T) {
	t.Parallel()
	d := drivers[0]
	q := newFleet(t, crews[d.name], servertest.Servers(t, 3))
	cluster := d.wrapCluster(t, servertest.Cluster(t, 3).Addrs())
	c, err := redlock.New(append(q.connectors(t, q.addrs()[:2]), cluster), unhurried)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	_, err = c.Mutex("k").Lock(soon(t))
	assert.ErrorIs(t, err, locker.ErrInvalid)
	assert.ErrorContains(t, err, "node 2 of the quorum is a Cluster")
}

// By the address of one of its servers, which the driver cannot know to be a Cluster's.
func TestQuorumRefusesANodeOfACluster(t *testing.T) {
	t.Parallel()
	addrs := servertest.Cluster(t, 3).Addrs()
	for name, crew := range crews {
		c := fleet{drivers: crew}.clientVia(t, addrs)
		_, err := c.Mutex("k").Lock(soon(t))
		assert.ErrorIs(t, err, locker.ErrInvalid, name)
		assert.ErrorContains(t, err, "of the quorum is a Cluster", name)
	}
}
