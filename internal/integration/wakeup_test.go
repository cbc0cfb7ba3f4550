package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// pollBound is how long a waiter may sleep on a free lock. It looks by itself after a second at
// the latest; who does not sleeps for longer than patience. The rest is for a machine that is busy.
const pollBound = patience / 2

// reservationLife is how long the place of a waiter is kept at most after it last
// asked: twice the longest pause, and two seconds.
const reservationLife = 4 * time.Second

// I4, and every driver hears what every other one says.
func TestWakeUpBetweenAllDrivers(t *testing.T) {
	srv := servertest.Single(t)
	eachWay(t, func(t *testing.T, from driverUnderTest) {
		holder := from.client(t, srv.Addr)
		for _, to := range drivers {
			waiter := newCountedClient(t, to.connector(t, srv.Addr))
			mustUnlock(t, waiter.requireWoken(t, waiter.Mutex("k"), func() *locker.Lease { return mustLock(t, holder.Mutex("k")) }, func(*locker.Lease) {}))
		}
	})
}

// rueidislock: "with NOLOOP a server frozen for 100 ms leaves waiters asleep on a
// free key for ever".
func TestAServerFrozenAgainAndAgainLeavesNoWaiterAsleepOnAFreeKey(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const clients, waiters = 3, 3
		working := within(t, 2*time.Second)
		var all sync.WaitGroup
		var held exclusion
		for range clients {
			c := d.client(t, srv.Addr, locker.TTL(5*time.Second))
			for range waiters {
				all.Go(func() {
					for working.Err() == nil {
						lease, err := c.Mutex("k").Lock(soon(t))
						if !assert.NoError(t, err) {
							return
						}
						held.enter(t, lease)
						<-time.After(10 * time.Millisecond)
						held.leave(lease)
						assert.NoError(t, lease.Unlock(soon(t)))
					}
				})
			}
		}
		for working.Err() == nil {
			srv.Pause()
			<-time.After(100 * time.Millisecond)
			srv.Resume()
			<-time.After(50 * time.Millisecond)
		}
		began := time.Now()
		all.Wait()
		assert.Less(t, time.Since(began), pollBound, "a waiter slept on a free lock")
		assert.Less(t, held.gap, pollBound, "all waiters slept on a free lock")
		assert.Greater(t, held.count, 20, "hardly anybody ever got the lock")
		assert.Empty(t, keys(t, srv))
	})
}

// The message itself is lost: the subscription is dead at the moment of the
// release, and the waiter has not noticed.
func TestALostWakeUpCostsOnePollInterval(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		holder := d.client(t, srv.Addr)
		w, addr := newWire(t, srv.Addr)
		waiter := d.client(t, addr)
		for range 3 {
			lease := mustLock(t, holder.Mutex("k"))
			waiting := goLockWaiting(t, soon(t), waiter.Mutex("k"), holder)
			w.KillAll()
			unlocked := time.Now()
			require.NoError(t, lease.Unlock(soon(t)))
			next := had(t, waiting)
			assert.Less(t, next.at.Sub(unlocked), pollBound)
			require.NoError(t, next.lease.Unlock(soon(t)))
		}
	})
}

// As above, but nobody learns that the connections are dead.
func TestAWakeUpIntoABlackHoleCostsTheTimeToNoticeIt(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		holder := d.client(t, srv.Addr)
		w, addr := newWire(t, srv.Addr)
		waiter := d.open(t, "redis://"+addr+"?timeout=500ms", locker.AttemptTimeout(300*time.Millisecond))
		connect(t, waiter)
		lease := mustLock(t, holder.Mutex("k"))
		waiting := goLockWaiting(t, soon(t), waiter.Mutex("k"), holder)
		w.Mute()
		unlocked := time.Now()
		require.NoError(t, lease.Unlock(soon(t)))
		next := had(t, waiting)
		assert.Less(t, next.at.Sub(unlocked), pollBound)
		require.NoError(t, next.lease.Unlock(soon(t)))
	})
}

// rueidislock: "a 60 ms delay on a free lock waits out the ctx".
func TestASlowServerIsNotTakenForALockedOne(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr)
		for _, name := range []string{"SET", "EVALSHA", "EVAL"} {
			w.On(wire.Match{Name: name, Times: -1}, wire.Delay(60*time.Millisecond))
		}
		for _, opts := range [][]locker.Option{nil, {locker.Fenced()}} {
			var lease *locker.Lease
			took := timed(func() { lease = mustLock(t, c.Mutex("free", opts...)) })
			assert.Less(t, took, pollBound)
			require.NoError(t, lease.Unlock(soon(t)))
		}
	})
}

// Cancelling a waiting Lock leaves nothing behind, and those behind it in the
// queue get their turn.
func TestCancelledWaitersLeaveNothingBehind(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		holder := d.client(t, srv.Addr)
		lease := mustTryLock(t, holder.Mutex("k"))
		ctx, cancel := context.WithCancel(t.Context())
		var cancelled []<-chan lockResult
		for range 5 {
			cancelled = append(cancelled, goLockWaiting(t, ctx, d.client(t, srv.Addr).Mutex("k"), holder))
		}
		patient := goLockWaiting(t, soon(t), d.client(t, srv.Addr).Mutex("k"), holder)
		cancel()
		for _, done := range cancelled {
			r := <-done
			require.ErrorIs(t, r.err, context.Canceled)
			var wait *locker.WaitError
			require.ErrorAs(t, r.err, &wait)
			assert.ErrorIs(t, wait.Reason, locker.ErrLocked, "the error does not say why it waited")
		}
		assertWaiters(t, holder, "k", 1) // the patient one
		unlocked := time.Now()
		require.NoError(t, lease.Unlock(soon(t)))
		next := had(t, patient)
		assert.Less(t, next.at.Sub(unlocked), pollBound)
		require.NoError(t, next.lease.Unlock(soon(t)))
		assert.Empty(t, keys(t, srv))
	})
}

// A lock that a crashed holder leaves behind is free when its TTL has passed.
func TestACrashedHoldersLockIsHadWhenItsTTLHasPassed(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		do(t, srv, "SET", "k", "set by hand and forgotten", "PX", "600")
		begun := time.Now()
		_, err := c.Mutex("k").TryLock(soon(t))
		var locked *locker.LockedError
		require.ErrorAs(t, err, &locked)
		assert.True(t, locked.Holder.Foreign)
		assert.Positive(t, locked.Holder.Remaining)
		lease := mustLock(t, c.Mutex("k"))
		assert.Greater(t, time.Since(begun), 500*time.Millisecond)
		assert.Less(t, time.Since(begun), 600*time.Millisecond+pollBound)
		assert.Nil(t, do(t, srv, "SET", "k", "by hand", "NX", "PX", "600"), "SET NX by hand takes a held lock")
		require.NoError(t, lease.Unlock(soon(t)))
	})
}
