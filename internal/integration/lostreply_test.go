package integration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// redsync: "one lost reply makes TryLock on a free lock say taken". With go-redis
// the client itself sends SET NX again and is told that it is taken, by us.
func TestOneLostReplyTryLockOnAFreeLockSucceeds(t *testing.T) {
	t.Parallel()
	losses := map[string]wire.Action{"cut": wire.CutReply, "half": wire.HalfReply}
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t)
		for name, loss := range losses {
			w, addr := newWire(t, srv.Addr)
			c := d.client(t, addr)
			lost := w.On(wire.Match{Name: "SET", Arg: name}, loss)
			lease, err := c.Mutex(name).TryLock(soon(t))
			require.NoError(t, err)
			require.Equal(t, 1, lost.Applied())
			assert.Equal(t, 1, w.Count(wire.Match{Name: "SET", Arg: name}), "SET NX was sent again")
			assert.True(t, lease.Valid())
			requireHeldAndReleased(t, srv, lease)
		}
	})
}

func TestLostRepliesTryLockOnAFreeFencedLockSucceeds(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.Fenced())
		warm := mustTryLock(t, c.Mutex("warm"))
		for n := 1; n <= 2; n++ {
			name := numbered("free", n)
			lost := w.On(wire.Match{Name: "EVALSHA", Arg: name, Times: n}, wire.CutReply)
			lease, err := c.Mutex(name).TryLock(soon(t))
			require.NoError(t, err)
			require.Equal(t, n, lost.Applied())
			record := do(t, srv, "GET", name).(string)
			assert.Equal(t, lease.Token().String(), strings.Split(record, "|")[3], "the record has another token than the lease")
			requireHeldAndReleased(t, srv, lease)
		}
		assert.NoError(t, warm.Unlock(soon(t)))
	})
}

// requireHeldAndReleased checks that the server knows the lease, and unlocks.
func requireHeldAndReleased(t *testing.T, srv *servertest.Server, lease *locker.Lease) {
	t.Helper()
	require.True(t, exists(t, srv, lease.Name()))
	require.NoError(t, lease.Unlock(soon(t)))
	require.False(t, exists(t, srv, lease.Name()))
}

func TestOneLostReplyUnlockSaysReleased(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr)
		require.NoError(t, mustTryLock(t, c.Mutex("warm")).Unlock(soon(t)))
		lease := mustTryLock(t, c.Mutex("k"))
		lost := w.On(wire.Match{Name: "EVALSHA", Arg: "k"}, wire.CutReply)
		assert.NoError(t, lease.Unlock(soon(t)), "the lock was ours until we released it")
		assert.Equal(t, 1, lost.Applied())
		assert.False(t, exists(t, srv, "k"))
	})
}

func TestLostRepliesOfRenewalsLoseNoLease(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(renewedTTL))
		lease := mustTryLock(t, c.Mutex("k"))
		for range 4 {
			for _, fault := range []wire.Action{wire.CutReply, wire.Delay(0)} { // Delay(0) is none
				renewal := w.On(wire.Match{Name: "EVALSHA", Arg: "k"}, fault)
				select {
				case <-renewal.Happened():
				case <-lease.Context().Done():
					require.NoError(t, lease.Err())
				}
			}
		}
		assert.True(t, lease.Valid())
		assert.NoError(t, lease.Unlock(soon(t)))
	})
}

// I6: a request may be applied twice; nothing is different then.
func TestRequestsAppliedTwiceChangeNothing(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(renewedTTL))
		observer := d.client(t, srv.Addr)
		for _, name := range []string{"EVALSHA", "EVAL"} {
			w.On(wire.Match{Name: name, Times: -1}, wire.Duplicate)
		}
		var last locker.Token
		for range 5 {
			lease := mustTryLock(t, c.Mutex("k", locker.Fenced()))
			assert.Greater(t, lease.Token(), last)
			last = lease.Token()
			require.NoError(t, lease.Extend(soon(t), time.Second))
			waiting := goLockWaiting(t, soon(t), c.Mutex("k", locker.Fenced()), observer)
			require.NoError(t, lease.Unlock(soon(t)))
			next := had(t, waiting).lease
			assert.Greater(t, next.Token(), last)
			last = next.Token()
			require.NoError(t, next.Unlock(soon(t)))
		}
		assertMortal(t, srv)
		s, err := observer.Inspect(soon(t), "k")
		require.NoError(t, err)
		assert.Zero(t, s)
	})
}
