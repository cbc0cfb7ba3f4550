package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// What will not go away by itself is reported and neither waited for nor touched.
func TestForeignValuesAreReportedAtOnceAndNotTouched(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		for kind, create := range map[string][]string{
			"string": {"SET", "k", "somebody's data"},
			"list":   {"RPUSH", "k", "a"},
			"hash":   {"HSET", "k", "a", "b"},
			"zset":   {"ZADD", "k", "1", "a"},
			"set":    {"SADD", "k", "a"},
			"stream": {"XADD", "k", "1-1", "a", "b"},
		} {
			do(t, srv, create...)
			before := do(t, srv, "DUMP", "k")
			for _, opts := range [][]locker.Option{nil, {locker.Fenced()}} {
				m := c.Mutex("k", opts...)
				for _, attempt := range []func() error{
					func() error { _, err := m.Lock(soon(t)); return err },
					func() error { _, err := m.TryLock(soon(t)); return err },
					func() error { _, err := c.ForceRelease(soon(t), "k"); return err },
					func() error { _, err := c.Inspect(soon(t), "k"); return err },
				} {
					var err error
					took := timed(func() { err = attempt() })
					assert.Less(t, took, refusalTime)
					var foreign *locker.ForeignError
					if assert.ErrorAs(t, err, &foreign, kind) {
						assert.Equal(t, kind, foreign.Type)
						assert.ErrorIs(t, err, locker.ErrForeign)
					}
				}
			}
			assert.Equal(t, before, do(t, srv, "DUMP", "k"), kind)
			assert.Equal(t, int64(-1), do(t, srv, "PTTL", "k"), "%s was given a TTL", kind)
			do(t, srv, "DEL", "k")
		}
	})
}

// I5: a record of ours that somebody took the TTL from is healed, and waited for.
func TestAnAbandonedLockWithoutTTLIsHealed(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		lease := mustTryLock(t, c.Mutex("k", locker.TTL(time.Second), locker.NoRenewal()))
		do(t, srv, "PERSIST", "k")
		next := mustLock(t, c.Mutex("k", locker.TTL(renewedTTL)))
		assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrTaken)

		// A holder that is alive heals it by its next renewal.
		do(t, srv, "PERSIST", "k")
		eventually(t, "a renewal gives the TTL back", func() bool { return do(t, srv, "PTTL", "k").(int64) > 0 })
		assert.True(t, next.Valid())
		assert.NoError(t, next.Unlock(soon(t)))
	})
}

// A lease goes from one process to another, whatever their clients, and only to
// one of those who would take it up.
func TestHandOverBetweenAllDrivers(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, from driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t)
		a := from.client(t, srv.Addr, locker.Fenced())
		for _, to := range drivers {
			b := to.client(t, srv.Addr, locker.Fenced())
			lease := mustTryLock(t, a.Mutex("k"))
			id, err := lease.Detach(soon(t), 10*time.Second)
			require.NoError(t, err)
			assert.False(t, lease.Valid())
			type taken struct {
				lease *locker.Lease
				err   error
			}
			results := make(chan taken)
			for range 3 {
				go func() {
					l, err := b.Mutex("k").Attach(soon(t), id)
					results <- taken{l, err}
				}()
			}
			var winner *locker.Lease
			for range 3 {
				r := <-results
				if r.err != nil {
					assert.ErrorIs(t, r.err, locker.ErrTaken)
					continue
				}
				assert.Nil(t, winner, "two have taken it up")
				winner = r.lease
			}
			require.NotNil(t, winner)
			assert.Greater(t, winner.Token(), lease.Token())
			assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrReleased, "the former holder's handle is void")
			assert.True(t, exists(t, srv, "k"))
			require.NoError(t, winner.Unlock(soon(t)))
		}
	})
}

// An administrator ends a lease; the next in the queue is told, and whoever held
// it learns at its next renewal.
func TestForceReleaseWakesTheNextAndTheHolderLearns(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c, admin := d.client(t, srv.Addr, locker.TTL(3*time.Second), locker.Label("holder")), d.client(t, srv.Addr)
		lease := mustTryLock(t, c.Mutex("k"))
		waiting := goLockWaiting(t, soon(t), admin.Mutex("k"), admin)
		assertAllListen(t, srv, "k")
		require.True(t, survivesRenewals(lease, 1), "%v", lease.Err()) // the next one finds the waiter's lock, and not none
		broken := time.Now()
		who, err := admin.ForceRelease(soon(t), "k")
		require.NoError(t, err)
		require.Len(t, who, 1)
		assert.Equal(t, "holder", who[0].Label)
		next := had(t, waiting)
		assert.Less(t, next.at.Sub(broken), pollBound)
		<-lease.Context().Done()
		assert.ErrorIs(t, lease.Err(), locker.ErrTaken, "that was the deadline and no renewal")
		assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrTaken)
		assert.NoError(t, next.lease.Unlock(soon(t)))
		_, err = admin.ForceRelease(soon(t), "k")
		assert.ErrorIs(t, err, locker.ErrAbsent)
	})
}

// I3: also when the data is lost, as long as the server's clock goes forward.
func TestTokensGrowAcrossHoldersAndALossOfTheData(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		var last locker.Token
		for n := range 12 {
			c := drivers[n%len(drivers)].client(t, srv.Addr, locker.Fenced())
			lease := mustLock(t, c.Mutex("k"))
			assert.Greater(t, lease.Token(), last)
			last = lease.Token()
			assert.Less(t, uint64(last), uint64(1)<<53)
			require.NoError(t, lease.Extend(soon(t), time.Minute))
			assert.Equal(t, last, lease.Token(), "renewal has changed the token")
			require.NoError(t, lease.Unlock(soon(t)))
			switch n {
			case 4:
				srv.Flush()
			case 8:
				srv.Restart()
			}
		}
	})
}
