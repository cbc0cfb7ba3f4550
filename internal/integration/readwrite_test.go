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
	"github.com/golocker/golocker/rwlock"
)

// I9: readers in a loop do not starve a writer. How many read sections begin between
// the writer's arrival and its turn is counted in the order in which the server
// executed what it was asked, so that no late reply counts.
func TestAWriterWaitsForAtMostThreeReadSections(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const readers, writes = 8, 100
		seen := monitor(t, srv)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		defer all.Wait()
		defer cancel()
		for range readers / 2 {
			rw := rwlock.New(d.client(t, srv.Addr), "k")
			for range 2 {
				all.Go(func() {
					for ctx.Err() == nil {
						lease, err := rw.RLock(ctx)
						if ctx.Err() != nil && err != nil {
							return
						}
						if !assert.NoError(t, err) {
							return
						}
						<-time.After(2 * time.Millisecond)
						assert.NoError(t, lease.Unlock(context.WithoutCancel(ctx)))
					}
				})
			}
		}
		rw := rwlock.New(d.client(t, srv.Addr), "k")
		arrivals := 0
		for range writes {
			lease, err := rw.Lock(soon(t))
			require.NoError(t, err)
			between, waited := seen.readsBeforeTheWrite(t, "k")
			assert.LessOrEqual(t, between, 3)
			if waited {
				arrivals++
			}
			require.NoError(t, lease.Unlock(soon(t)))
			seen.awaitRead(t, "k") // the writer does not starve them either
		}
		assert.Greater(t, arrivals, writes/2, "the writer hardly ever met a reader")
	})
}

// "A 300 ms reader cut a 30 s lease and let a writer in": every hold has a deadline of
// its own.
func TestAReaderDoesNotChangeTheDeadlineOfAnother(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const long, short = 30 * time.Second, time.Second
		reader := func(ttl time.Duration, owner string) *locker.Lease {
			rw := rwlock.New(d.client(t, srv.Addr), "k", locker.TTL(ttl), locker.NoRenewal(), locker.As(locker.NamedOwner(owner)))
			lease, err := rw.TryRLock(soon(t))
			require.NoError(t, err)
			return lease
		}
		a := reader(long, "long")
		deadline, until := a.Deadline(), serverDeadline(t, srv, "k", "long")
		unchanged := func(when string) {
			t.Helper()
			assert.Equal(t, deadline, a.Deadline(), when)
			assert.Equal(t, until, serverDeadline(t, srv, "k", "long"), when)
			assert.Greater(t, do(t, srv, "PTTL", "k"), int64(20_000), when)
		}

		observer := d.client(t, srv.Addr)
		b := reader(short, "short")
		assert.Less(t, b.Deadline(), time.Now().Add(short))
		assert.Less(t, serverDeadline(t, srv, "k", "short"), until-20_000)
		unchanged("after another was let in")
		require.NoError(t, b.Extend(soon(t), short))
		unchanged("after another was renewed")
		assert.ErrorIs(t, lossOf(t, b), locker.ErrLost)
		eventually(t, "only one holds it", func() bool { return holds(t, observer, "k") == 1 })
		unchanged("after another ran out")
		assert.ErrorIs(t, b.Unlock(soon(t)), locker.ErrTaken)
		unchanged("after another was unlocked too late")

		_, err := rwlock.New(observer, "k").TryLock(soon(t))
		var locked *locker.LockedError
		require.ErrorAs(t, err, &locked, "a writer was let in")
		assert.Equal(t, "long", locked.Holder.Owner)
		assert.Greater(t, locked.Holder.Remaining, 20*time.Second)

		c := reader(short, "short")
		end := serverDeadline(t, srv, "k", "short")
		require.NoError(t, a.Extend(soon(t), time.Minute))
		require.NoError(t, a.Unlock(soon(t)))
		assert.Equal(t, end, serverDeadline(t, srv, "k", "short"), "it was lengthened with another")
		assert.ErrorIs(t, lossOf(t, c), locker.ErrLost)
		// The server's clock is behind the client's margin.
		eventually(t, "a writer is let in", func() bool {
			lease, err := rwlock.New(observer, "k").TryLock(soon(t))
			return err == nil && lease.Unlock(soon(t)) == nil
		})
		assert.Empty(t, keys(t, srv))
	})
}

// "Crashed reader leaves a count for ever": it delays a writer by its own TTL.
func TestACrashedReaderDelaysAWriterByItsOwnTTL(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const ttl = time.Second
		rw := rwlock.New(d.client(t, srv.Addr), "k")
		healthy, err := rw.RLock(soon(t))
		require.NoError(t, err)
		begun := time.Now()
		crashed, err := rwlock.New(d.client(t, srv.Addr), "k", locker.TTL(ttl), locker.NoRenewal()).RLock(soon(t))
		require.NoError(t, err)
		writer := d.client(t, srv.Addr)
		waiting := goLockWaiting(t, soon(t), writeKind.on(writer, "k"), writer)
		require.NoError(t, healthy.Unlock(soon(t)))
		next := had(t, waiting)
		assert.False(t, crashed.Valid(), "its holder still believes in it")
		assert.Less(t, next.at.Sub(begun), ttl+pollBound)
		require.NoError(t, next.lease.Unlock(soon(t)))
		assertFree(t, srv, writer, "k")
	})
}

// An uncontended pair of any kind costs two requests.
func TestAPairOfRequestsForEveryKind(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr)
		for _, kind := range lockKinds {
			require.NoError(t, mustLock(t, kind.on(c, "warm")).Unlock(soon(t)))
			name := "pair-" + kind.name
			require.NoError(t, mustLock(t, kind.on(c, name)).Unlock(soon(t)))
			assert.Equal(t, 2, w.Count(wire.Match{Arg: name}), kind.name)
		}
	})
}

// Redisson: "releasing write while holding read forgets to wake readers".
func TestReleasingWriteWhileReadingLetsReadersIn(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		ctx := locker.WithOwner(soon(t), locker.NewOwner())
		rw := rwlock.New(d.client(t, srv.Addr), "k")
		other := newCountedClient(t, d.connector(t, srv.Addr))
		var reading *locker.Lease
		next := other.requireWoken(t, readKind.on(other.Client, "k"), func() *locker.Lease {
			if reading != nil {
				mustUnlock(t, reading)
			}
			writing, err := rw.Lock(ctx)
			require.NoError(t, err)
			reading, err = rw.RLock(ctx)
			require.NoError(t, err)
			return writing
		}, func(*locker.Lease) {})
		assert.True(t, reading.Valid())
		mustUnlock(t, next)
		mustUnlock(t, reading)
		assertFree(t, srv, other.Client, "k")
	})
}

// Redisson: "write renewal stops when the same owner releases its read".
func TestWritingIsRenewedAfterTheSameOwnerHasRead(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		ctx := locker.WithOwner(soon(t), locker.NewOwner())
		rw := rwlock.New(d.client(t, srv.Addr), "k", locker.TTL(renewedTTL))
		writing, err := rw.Lock(ctx)
		require.NoError(t, err)
		reading, err := rw.RLock(ctx)
		require.NoError(t, err)
		require.NoError(t, reading.Unlock(soon(t)))
		assert.True(t, survivesRenewals(writing, 3), "%v", writing.Err())
		_, err = rwlock.New(d.client(t, srv.Addr), "k").TryRLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrLocked)
		require.NoError(t, writing.Unlock(soon(t)))
	})
}
