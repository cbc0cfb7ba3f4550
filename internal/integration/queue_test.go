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

// I8: clients of all drivers get a lock in the order in which they came. Each hand-off
// costs the server one script and one message, and the new holder no request,
// however many wait.
func TestHandOffInOrderOfArrivalCostsOneScriptAndOneMessage(t *testing.T) {
	t.Parallel()
	for _, kind := range lockKinds {
		if kind.name == readKind.name {
			continue // they are let in together
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			srv := servertest.Single(t)
			for _, waiters := range []int{3, 12} {
				q := newLine(t, srv, waiters)
				q.handOn(t, kind, "warm") // from now on all listen
				before := calls(t, srv)
				costs := q.handOn(t, kind, numbered("line", waiters))
				after := calls(t, srv)
				assert.Equal(t, waiters, after["publish"]-before["publish"])
				assert.Equal(t, waiters+1, costs, "scripts that take or release")
			}
		})
	}
}

// A line is clients that wait for a lock one behind the other.
type line struct {
	srv      *servertest.Server
	observer *locker.Client
	clients  []*locker.Client
}

func newLine(t *testing.T, srv *servertest.Server, n int) *line {
	t.Helper()
	// Nobody polls or renews meanwhile, so that only hand-offs are counted.
	quiet := []locker.ClientOption{locker.Retry(locker.Constant(time.Minute)), locker.TTL(10 * time.Minute)}
	l := &line{srv: srv, observer: drivers[0].client(t, srv.Addr, quiet...)}
	for i := range n {
		l.clients = append(l.clients, drivers[i%len(drivers)].client(t, srv.Addr, quiet...))
	}
	return l
}

// handOn has all wait for a lock, and give it up as soon as they have it. It returns
// how many scripts the server executed from the first release on.
func (l *line) handOn(t *testing.T, kind lockKind, name string) (scripts int) {
	t.Helper()
	held := mustLock(t, kind.on(l.observer, name))
	order := make(chan int, len(l.clients))
	var all sync.WaitGroup
	for i, c := range l.clients {
		waiting := goLockWaiting(t, t.Context(), kind.on(c, name), l.observer)
		all.Go(func() {
			r := <-waiting
			if assert.NoError(t, r.err) {
				order <- i
				assert.NoError(t, r.lease.Unlock(soon(t)))
			}
		})
	}
	before := calls(t, l.srv)["evalsha"]
	require.NoError(t, held.Unlock(soon(t)))
	for want := range l.clients {
		select {
		case got := <-order:
			assert.Equal(t, want, got, "out of order")
		case <-time.After(patience):
			require.FailNow(t, "nobody gets the lock")
		}
	}
	all.Wait()
	eventually(t, "the last release", func() bool { return !exists(t, l.srv, name) })
	return calls(t, l.srv)["evalsha"] - before
}

// Redisson: "a missed message sleeps a whole TTL". Here it costs a poll, with locks of
// every kind: the subscription is dead at the moment of the release, and the lock is
// granted to who does not hear it.
func TestAMissedGrantCostsAtMostAPoll(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		holder := d.client(t, srv.Addr)
		w, addr := newWire(t, srv.Addr)
		waiter := d.client(t, addr)
		for _, kind := range lockKinds {
			lease := mustLock(t, kind.against(holder, "k"))
			waiting := goLockWaiting(t, soon(t), kind.on(waiter, "k"), holder)
			w.KillAll()
			unlocked := time.Now()
			require.NoError(t, lease.Unlock(soon(t)))
			next := had(t, waiting)
			assert.Less(t, next.at.Sub(unlocked), pollBound, kind.name)
			assert.Equal(t, 1, holds(t, holder, "k"), kind.name)
			assert.True(t, next.lease.Valid(), kind.name)
			require.NoError(t, next.lease.Unlock(soon(t)))
			assertFree(t, srv, holder, "k")
		}
	})
}

// A waiter that died before its turn costs those behind it what is left of its place,
// not a TTL.
func TestADeadWaiterCostsThoseBehindItsReservationAndNoTTL(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		for _, kind := range []lockKind{fencedKind, reentrantKind, writeKind} {
			t.Run(kind.name, func(t *testing.T) {
				t.Parallel()
				holder, patient := d.client(t, srv.Addr), d.client(t, srv.Addr)
				w, addr := newWire(t, srv.Addr)
				dead := d.client(t, addr)
				lease := mustLock(t, kind.on(holder, kind.name))
				dying, die := context.WithCancel(t.Context())
				defer die()
				goLockWaiting(t, dying, kind.on(dead, kind.name), holder)
				waiting := goLockWaiting(t, soon(t), kind.on(patient, kind.name), holder)
				w.Mute() // half-open: the server still believes that it listens
				w.HangDials()
				unlocked := time.Now()
				require.NoError(t, lease.Unlock(soon(t)))
				next := had(t, waiting)
				// Two sleeps of a second at most and two seconds besides, then a poll.
				assert.Less(t, next.at.Sub(unlocked), reservationLife+pollBound)
				require.NoError(t, next.lease.Unlock(soon(t)))
			})
		}
	})
}
