package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// The wall clock of one node is set forward and back by a minute, which ends its holds
// or makes them last. The others outvote it, and tokens grow all the same, whichever
// nodes give them.
func TestQuorumWithAClockThatIsSet(t *testing.T) {
	t.Parallel()
	for name, crew := range crews {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			berths <- struct{}{}
			t.Cleanup(func() { <-berths })
			clock := servertest.NewClock(t)
			servers := append(servertest.Servers(t, 4), servertest.Single(t, clock.Option()))
			q := newFleet(t, crew, servers)
			const off = 4
			a, toA := q.wired(t, locker.TTL(3*time.Second))
			b := q.client(t, locker.TTL(3*time.Second))
			var order tokenOrder
			for _, step := range []time.Duration{time.Minute, -time.Minute, 0, time.Minute} {
				warm(t, a)
				leases := map[string]*locker.Lease{}
				for _, kind := range []lockKind{plainKind, reentrantKind, writeKind} {
					leases[kind.name] = mustLock(t, kind.on(a, "held-"+kind.name))
					// A majority that needs the node whose clock is set is none.
					eventually(t, "all nodes hold it", func() bool { return q.holding(t, "held-"+kind.name) == 5 })
				}
				clock.Set(step)
				for _, kind := range []lockKind{plainKind, reentrantKind, writeKind} {
					_, err := kind.on(b, "held-"+kind.name).TryLock(soon(t))
					assert.ErrorIs(t, err, locker.ErrLocked, "%s, clock set to %v", kind.name, step)
				}
				for _, lease := range leases {
					assert.True(t, survivesRenewals(lease, 1), "clock set to %v: %v", step, lease.Err())
					mustUnlock(t, lease)
				}
				eachKindWorks(t, a, b, &order)
				// The majority is each time another one, with that node and without.
				for _, missing := range []lines{{toA[0], toA[1]}, {toA[off], toA[2]}, {toA[1], toA[3]}} {
					missing.partition()
					lease := mustLock(t, a.Mutex("k", locker.Fenced()))
					order.next(t, lease)
					mustUnlock(t, lease)
					missing.heal()
				}
			}
			require.NoError(t, a.Close())
			// Where the clock was set back, what it had armed before lasts longer.
			clock.Set(2 * time.Minute)
			q.assertEmptyWithin(t, 3*time.Second+patience/4)
		})
	}
}
