package integration_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// I6 with locks of every kind, 1005 times: the requests that take, renew and release a
// lock are sent twice, lose their reply or come when their caller has given up, and
// then arrive once more in any order: when the lock is free, and when it is the next
// one's. There is never a hold too many or too few.
func TestDuplicatedAndLateRequestsLeaveTheRightCount(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const rounds = 67 // of 3 drivers and 5 kinds
		w, addr := newWire(t, srv.Addr)
		u := unsteadyLine{srv: srv, wire: w, unsteady: d.client(t, addr), steady: d.client(t, srv.Addr)}
		for _, kind := range lockKinds {
			require.NoError(t, mustLock(t, kind.on(u.unsteady, "warm")).Unlock(soon(t)))
			for n := range rounds {
				u.round(t, kind, fmt.Sprintf("%s-%d.", kind.name, n), n)
				if t.Failed() {
					return
				}
			}
		}
		assert.Empty(t, keys(t, srv))
		assertMortal(t, srv)
	})
}

// An unsteadyLine is a lock client whose line has faults, and one that has none.
type unsteadyLine struct {
	srv              *servertest.Server
	wire             *wire.Wire
	unsteady, steady *locker.Client
}

func (u *unsteadyLine) round(t *testing.T, kind lockKind, name string, n int) {
	m := kind.on(u.unsteady, name, locker.TTL(5*time.Second)) // the pause before a renewal is sent again depends on it
	match := wire.Match{Arg: name}
	switch fault := n % 5; {
	case fault == 0 && kind.name != plainKind.name: // whose late SET NX takes the lock
		u.late(t, m, match)
	case fault == 1:
		match.Times = -1
		u.lease(t, m, u.wire.On(match, wire.Duplicate))
	default: // one of the three requests
		match.Skip = fault % 3
		u.lease(t, m, u.wire.On(match, wire.CutReply))
	}
	u.replay(t, name)
	assert.Zero(t, holds(t, u.steady, name), "%s: a request that came once more took the lock", name)

	next := mustTryLock(t, kind.on(u.steady, name))
	u.replay(t, name)
	assert.Equal(t, 1, holds(t, u.steady, name), "%s: a request that came once more touched the next lease", name)
	require.NoError(t, next.Unlock(soon(t)), name)
	assert.Zero(t, status(t, u.steady, name), name)
}

// lease takes, renews and releases a lock while a rule is in force.
func (u *unsteadyLine) lease(t *testing.T, m *locker.Mutex, fault *wire.Rule) {
	t.Helper()
	defer fault.Remove()
	lease := mustTryLock(t, m)
	assert.Equal(t, 1, holds(t, u.steady, m.Name()), m.Name())
	require.NoError(t, lease.Extend(soon(t), time.Minute), m.Name())
	assert.Equal(t, 1, holds(t, u.steady, m.Name()), m.Name())
	require.NoError(t, lease.Unlock(soon(t)), m.Name())
	assert.Positive(t, fault.Applied(), m.Name())
}

// late gives an attempt up while its request is on its way, and lets that arrive.
func (u *unsteadyLine) late(t *testing.T, m *locker.Mutex, match wire.Match) {
	t.Helper()
	late := u.wire.On(match, wire.HoldRequest)
	defer late.Remove()
	giveUpWhen(t, m, soon(t), late)
	late.Release()
	eventually(t, "the attempt has been given up", func() bool {
		return !slices.ContainsFunc(u.wire.Requests(match), func(r wire.Request) bool { return r.Forwarded == 0 }) &&
			u.wire.Count(match) > 1 && holds(t, u.steady, m.Name()) == 0
	})
}

// replay has all requests about a lock arrive once more, in any order.
func (u *unsteadyLine) replay(t *testing.T, name string) {
	t.Helper()
	requests := u.wire.Requests(wire.Match{Arg: name})
	rand.Shuffle(len(requests), func(i, j int) { requests[i], requests[j] = requests[j], requests[i] })
	for _, r := range requests {
		if r.Args[0] != "SET" { // which cannot know that its attempt is over
			do(t, u.srv, r.Args...)
		}
	}
}
