package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// rueidislock: "by default each renewal wakes itself: 1000 held locks make 155 k
// commands a second". Ours make one renewal for each TTL/3, and nothing else.
func TestAThousandHeldLocksCostOneRenewalEachThirdOfTheTTL(t *testing.T) {
	const (
		held   = 1000
		ttl    = 6 * time.Second
		window = 4 * time.Second
	)
	servers := map[string]*servertest.Server{}
	leases := map[string][]*locker.Lease{}
	for _, d := range drivers {
		srv := servertest.Single(t)
		c := d.client(t, srv.Addr, locker.TTL(ttl))
		// From now on the server knows the script.
		require.NoError(t, mustTryLock(t, c.Mutex("warm")).Extend(soon(t), ttl))
		var mu sync.Mutex
		var all sync.WaitGroup
		for worker := range 20 {
			all.Go(func() {
				for i := worker; i < held; i += 20 {
					lease, err := c.Mutex(numbered("k", i)).TryLock(soon(t))
					if assert.NoError(t, err) {
						mu.Lock()
						leases[d.name] = append(leases[d.name], lease)
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		servers[d.name] = srv
	}
	before := map[string]map[string]int{}
	for name, srv := range servers {
		before[name] = calls(t, srv)
	}
	begun := time.Now()
	<-time.After(window)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		after := calls(t, servers[d.name])
		took := time.Since(begun)
		diff := map[string]int{}
		for name, n := range after {
			if n -= before[d.name][name]; n > 0 {
				diff[name] = n
			}
		}
		// Renewals are spread over a tenth: there are up to 11 % more of them.
		expected := float64(held) * float64(took) / float64(ttl/3)
		renewals := diff["pexpire"]
		assert.InDelta(t, expected*1.05, renewals, expected*0.25, "renewals")
		// Each looks who holds the lock, for how long on older servers, and lengthens it.
		for _, inside := range []string{"get", "pttl"} {
			assert.LessOrEqual(t, diff[inside], renewals, inside)
		}
		assert.Less(t, diff["evalsha"], renewals/10, "many renewals share a request")
		for _, name := range []string{"publish", "set", "eval", "script|load"} {
			assert.Zero(t, diff[name], name)
		}
		total := 0
		for _, n := range diff {
			total += n
		}
		assert.LessOrEqual(t, total, 3*renewals+diff["evalsha"]+50, "commands that are no renewals: %v", diff)
		for _, lease := range leases[d.name] {
			require.NoError(t, lease.Err())
		}
		t.Logf("%d held locks: %.0f renewals a second, %.0f commands a second inside of them",
			held, float64(renewals)/took.Seconds(), float64(total-diff["evalsha"])/took.Seconds())
	})
}

// Waiters are no reason to ask more often than once per poll interval.
func TestWaitersOfAHeldLockAskAboutOnceASecond(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const waiters = 20
		c := d.client(t, srv.Addr)
		mustTryLock(t, c.Mutex("k"))
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range waiters {
			m := d.client(t, srv.Addr).Mutex("k") // those of one client wait as one
			all.Go(func() {
				_, err := m.Lock(ctx)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		assertWaiters(t, c, "k", waiters)
		assertAllListen(t, srv, "k") // until then they poll
		before, begun := calls(t, srv), time.Now()
		<-time.After(3 * time.Second)
		asked := calls(t, srv)["evalsha"] - before["evalsha"]
		took := time.Since(begun)
		assert.LessOrEqual(t, float64(asked), waiters*(took.Seconds()/0.75+1))
		cancel()
		all.Wait()
		assertWaiters(t, c, "k", 0)
	})
}

// I2: who was cut off from the server for less than the lease keeps it.
func TestAFreezeShorterThanTheLeaseLosesNothing(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(quorumTTL)) // of which more than a second is left at the end
		lease := mustTryLock(t, c.Mutex("k"))
		for range 2 {
			srv.Pause()
			lasts(t, quorumTTL/3+200*time.Millisecond, func() { require.NoError(t, lease.Err()) })
			srv.Resume()
			// It has to be renewed before the next freeze.
			require.True(t, survivesRenewals(lease, 1), "%v", lease.Err())
		}
		assert.NoError(t, lease.Unlock(soon(t)))
	})
}

// A server that comes back empty: the holder of a lock of whatever kind learns it at
// the next renewal that gets through, and nothing makes the key again.
func TestServerRestartedEmptyHolderLearnsAtItsNextRenewal(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(quorumTTL)) // two renewals may come to nothing on connections that are broken
		var leases []*locker.Lease
		for _, kind := range lockKinds {
			leases = append(leases, mustTryLock(t, kind.on(c, kind.name)))
		}
		srv.Restart()
		for n, lease := range leases {
			name := lease.Name()
			loss := lossOf(t, lease)
			assert.ErrorIs(t, loss, locker.ErrLost, name)
			assert.ErrorIs(t, loss, locker.ErrAbsent, "%s: that was the deadline and no renewal", name)
			assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrAbsent, name)
			assert.False(t, exists(t, srv, name), "it was made again")
			next := mustLock(t, lockKinds[n].on(c, name))
			assert.NoError(t, next.Unlock(soon(t)), name)
		}
	})
}

// redsync: "SetNXOnExtend resurrects a lock that another held meanwhile".
func TestARenewalNeverMakesALock(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		for what, change := range map[string]struct {
			command []string
			want    error
		}{
			"deleted":    {[]string{"DEL", "k"}, locker.ErrAbsent},
			"flushed":    {[]string{"FLUSHALL"}, locker.ErrAbsent},
			"overridden": {[]string{"SET", "k", "other", "PX", "60000"}, locker.ErrTaken},
			"retyped":    {[]string{"EVAL", "redis.call('DEL', 'k') redis.call('LPUSH', 'k', 'x')", "0"}, locker.ErrTaken},
		} {
			lease := mustTryLock(t, c.Mutex("k"))
			do(t, srv, change.command...)
			before, err := srv.Do("DUMP", "k")
			require.NoError(t, err)
			assert.ErrorIs(t, lossOf(t, lease), change.want, what)
			assert.ErrorIs(t, lease.Extend(soon(t), time.Second), locker.ErrLost, what)
			assert.ErrorIs(t, lease.Unlock(soon(t)), change.want, what)
			after, err := srv.Do("DUMP", "k")
			require.NoError(t, err)
			assert.Equal(t, before, after, "%s: the key was changed", what)
			do(t, srv, "FLUSHALL")
		}
	})
}

// Two clients contend while the scripts vanish from the server again and again.
func TestScriptFlushIsNotNoticed(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		a, b := d.client(t, srv.Addr, locker.TTL(renewedTTL)), d.client(t, srv.Addr)
		for _, kind := range lockKinds {
			held := mustTryLock(t, kind.on(a, "held"))
			var last locker.Token
			for range 3 {
				do(t, srv, "SCRIPT", "FLUSH")
				lease := mustLock(t, kind.against(a, "k"))
				assert.GreaterOrEqual(t, lease.Token(), last, kind.name)
				do(t, srv, "SCRIPT", "FLUSH")
				waiting := goLockWaiting(t, soon(t), kind.on(b, "k"), a)
				do(t, srv, "SCRIPT", "FLUSH")
				require.NoError(t, lease.Unlock(soon(t)), kind.name)
				next := had(t, waiting).lease
				assert.GreaterOrEqual(t, next.Token(), lease.Token(), kind.name)
				last = next.Token()
				do(t, srv, "SCRIPT", "FLUSH")
				require.NoError(t, next.Unlock(soon(t)), kind.name)
			}
			assert.True(t, survivesRenewals(held, 2), "%s: the watchdog has not got over SCRIPT FLUSH", kind.name)
			assert.NoError(t, held.Unlock(soon(t)), kind.name)
		}
	})
}

// survivesRenewals waits for n renewals of a lease and tells whether it is valid
// then.
func survivesRenewals(lease *locker.Lease, n int) bool {
	for range n {
		deadline := lease.Deadline()
		for !lease.Deadline().After(deadline) {
			select {
			case <-lease.Context().Done():
				return false
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return lease.Valid()
}

// The server hangs up on everybody, again and again.
func TestClientKillLosesNoLeaseAndNoWaiter(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		for _, kind := range []string{"normal", "pubsub"} {
			srv := servertest.Single(t)
			a, b := d.client(t, srv.Addr, locker.TTL(3*time.Second)), d.client(t, srv.Addr)
			lease := mustTryLock(t, a.Mutex("k"))
			waiting := goLockWaiting(t, soon(t), b.Mutex("k"), a)
			for range 5 {
				do(t, srv, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
				lasts(t, 200*time.Millisecond, func() { require.NoError(t, lease.Err(), kind) })
			}
			do(t, srv, "CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
			require.NoError(t, lease.Unlock(soon(t)), kind)
			unlocked := time.Now()
			next := had(t, waiting)
			assert.Less(t, next.at.Sub(unlocked), pollBound, "%s: the waiter slept on a free lock", kind)
			assert.NoError(t, next.lease.Unlock(soon(t)), kind)
		}
	})
}
