package integration_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// redsync: "Extend races with Until". For the race detector, above all.
func TestALeaseCanBeUsedFromManyGoroutines(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		lease := mustTryLock(t, c.Mutex("k", locker.Fenced()))
		var all sync.WaitGroup
		for _, use := range []func(){
			func() { _ = lease.Extend(soon(t), renewedTTL) },
			func() { _ = lease.Deadline() },
			func() { _ = lease.Valid() },
			func() { _ = lease.Err() },
			func() { _ = lease.Context() },
			func() { _ = lease.Token() },
		} {
			for range 2 {
				all.Go(func() {
					for lease.Err() == nil {
						use()
					}
				})
			}
		}
		assert.True(t, survivesRenewals(lease, 20))
		results := make(chan error, 3)
		for range cap(results) {
			all.Go(func() { results <- lease.Unlock(soon(t)) })
		}
		all.Wait()
		for range cap(results) {
			assert.NoError(t, <-results, "all calls of Unlock give the same answer")
		}
		assert.False(t, exists(t, srv, "k"))
	})
}

// Redisson: "watchdog outlives unlock".
func TestNothingIsSentForALeaseAfterUnlock(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(renewedTTL))
		lease := mustTryLock(t, c.Mutex("gone"))
		require.NoError(t, mustTryLock(t, c.Mutex("renewed")).Err())
		require.True(t, survivesRenewals(lease, 2), "%v", lease.Err())
		require.NoError(t, lease.Unlock(soon(t)))
		after := w.Count(wire.Match{Arg: "gone"})
		renewed := w.Count(wire.Match{Arg: "renewed"})
		eventually(t, "others are renewed", func() bool { return w.Count(wire.Match{Arg: "renewed"}) >= renewed+3 })
		assert.Equal(t, after, w.Count(wire.Match{Arg: "gone"}))
	})
}

// Unlock joins a renewal in flight: what arrives after it would be a renewal of a
// lock that is somebody else's by then.
func TestUnlockJoinsTheRenewalInFlight(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(3*time.Second))
		lease := mustTryLock(t, c.Mutex("k"))
		require.True(t, survivesRenewals(lease, 1))
		renewal := w.On(wire.Match{Name: "EVALSHA", Arg: "k"}, wire.HoldReply)
		select {
		case <-renewal.Happened():
		case <-lease.Context().Done():
			require.FailNow(t, "it is lost, and was not renewed", "%v", lease.Err())
		}
		released := w.On(wire.Match{Name: "EVALSHA", Arg: "k"}, wire.Delay(0))
		done := make(chan error)
		go func() { done <- lease.Unlock(soon(t)) }()
		<-lease.Context().Done()
		select {
		case <-released.Happened():
			assert.Fail(t, "the release overtook the renewal")
		case <-time.After(100 * time.Millisecond):
		}
		renewal.Release()
		assert.NoError(t, <-done)
		assert.False(t, exists(t, srv, "k"))
	})
}

// A cancelled request never leaks a lock.
func TestACancelledContextReleasesAllTheSame(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Do(ctx, "do", func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		})
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, locker.ErrLost)
		assert.NotErrorIs(t, err, locker.ErrUnknown)
		assert.False(t, exists(t, srv, "do"))

		lease := mustTryLock(t, c.Mutex("k"))
		_ = lease.Unlock(ctx)
		eventually(t, "it is released in the background", func() bool { return !exists(t, srv, "k") })
	})
}

// redsync: "with fail-fast and one hung node goroutines pile up at the request
// rate". What a client leaves behind at a frozen server is bounded.
func TestAFrozenServerDoesNotPileUpGoroutines(t *testing.T) {
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		srv := servertest.Single(t)
		const ttl = 3 * time.Second
		c := d.client(t, srv.Addr, locker.TTL(ttl))
		require.NoError(t, mustTryLock(t, c.Mutex("warm")).Unlock(soon(t)))
		srv.Pause()
		t.Cleanup(srv.Resume)
		before := runtime.NumGoroutine()
		const workers, turns = 50, 30
		most := 0
		var mu sync.Mutex
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for range turns {
					ctx, cancel := context.WithCancel(t.Context())
					timer := time.AfterFunc(20*time.Millisecond, cancel)
					_, err := c.Mutex("k").TryLock(ctx)
					timer.Stop()
					assert.True(t, errors.Is(err, context.Canceled), "%v", err)
					mu.Lock()
					most = max(most, runtime.NumGoroutine())
					mu.Unlock()
				}
			})
		}
		all.Wait()
		left := runtime.NumGoroutine() - before
		t.Logf("%d attempts at a frozen server: %d goroutines more at the most, %d at the end", workers*turns, most-before, left)
		// The workers' own, and some for each connection and request in flight.
		assert.Less(t, most-before, workers*12)
		srv.Resume()
		// A late SET NX may have taken the lock, for one TTL.
		took := timed(func() { require.NoError(t, mustLock(t, c.Mutex("k")).Unlock(soon(t))) })
		assert.Less(t, took, ttl+pollBound)
	})
}

// The watchdog keeps no lock beyond its maximum hold.
func TestMaxHoldEndsALeaseAndFreesTheLock(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		begun := time.Now()
		lease := mustTryLock(t, c.Mutex("k", locker.MaxHold(1500*time.Millisecond)))
		next := goLock(soon(t), c.Mutex("k"))
		assert.ErrorIs(t, lossOf(t, lease), locker.ErrMaxHold)
		assert.Greater(t, time.Since(begun), 1400*time.Millisecond)
		r := had(t, next)
		assert.Less(t, r.at.Sub(begun), 1500*time.Millisecond+renewedTTL+pollBound)
		assert.NoError(t, r.lease.Unlock(soon(t)))
	})
}
