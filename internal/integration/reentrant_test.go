package integration_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// ownedKinds are those whose owner can take them again.
var ownedKinds = []lockKind{reentrantKind, readKind, writeKind}

// Redisson: "resent acquire leaves hold count 2".
func TestAResentAcquireLeavesOneHold(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c, observer := d.client(t, addr), d.client(t, srv.Addr)
		for _, kind := range ownedKinds {
			require.NoError(t, mustTryLock(t, kind.on(c, "warm")).Unlock(soon(t)))
			for n, loss := range []wire.Action{wire.CutReply, wire.HalfReply, wire.Duplicate} {
				name := numbered("resent-"+kind.name, n)
				lost := w.On(wire.Match{Arg: name}, loss)
				lease := mustTryLock(t, kind.on(c, name))
				assert.Equal(t, 1, lost.Applied())
				assert.Equal(t, 1, holds(t, observer, name), name)
				require.NoError(t, lease.Unlock(soon(t)))
				assertFree(t, srv, observer, name)
			}
		}
	})
}

// Redisson: "after a timeout the same thread re-enters its own orphan". What an attempt
// that timed out has left goes, and what the owner takes next is a hold of its own.
func TestATimedOutAttemptIsNotReentered(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c, observer := d.client(t, addr), d.client(t, srv.Addr)
		for _, kind := range ownedKinds {
			require.NoError(t, mustTryLock(t, kind.on(c, "warm")).Unlock(soon(t)))
			name := "orphan-" + kind.name
			ctx := locker.WithOwner(soon(t), locker.NewOwner())
			lost := w.On(wire.Match{Arg: name, Times: -1}, wire.HoldReply)
			giveUpWhen(t, kind.on(c, name), ctx, lost)
			lost.Remove()
			lost.Release()

			lease, err := kind.on(c, name).TryLock(ctx)
			require.NoError(t, err)
			eventually(t, "the orphan goes, and the lease stays", func() bool { return holds(t, observer, name) == 1 })
			assert.True(t, lease.Valid())
			require.NoError(t, lease.Extend(soon(t), time.Minute), "what has gone was the lease")
			require.NoError(t, lease.Unlock(soon(t)))
			assertFree(t, srv, observer, name)
		}
	})
}

// Redisson: "watchdog outlives unlock". One of two handles keeps it going; after the
// last nothing is sent.
func TestTheWatchdogEndsWithTheLastHandle(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		for _, kind := range ownedKinds {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				const ttl = renewedTTL
				w, addr := newWire(t, srv.Addr)
				m := kind.on(d.client(t, addr), "watched-"+kind.name, locker.TTL(ttl))
				ctx := locker.WithOwner(soon(t), locker.NewOwner())
				outer, err := m.Lock(ctx)
				require.NoError(t, err)
				inner, err := m.Lock(ctx)
				require.NoError(t, err)
				require.NoError(t, outer.Unlock(soon(t)))
				assert.True(t, survivesRenewals(inner, 3), "%v", inner.Err())
				require.NoError(t, inner.Unlock(soon(t)))
				sent := w.Count(wire.Match{Arg: m.Name()})
				lasts(t, ttl, func() { require.Equal(t, sent, w.Count(wire.Match{Arg: m.Name()})) })
			})
		}
	})
}
