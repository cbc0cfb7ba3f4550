package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// What a minority of the nodes forbids is done without; what a majority forbids is told at
// once, as on one server.
func TestAMissingPermissionOnAQuorum(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		user := servertest.LocksUser(t)
		var nodes []permitted
		var dsns []string
		for range 3 {
			srv := servertest.Single(t, servertest.Users(user))
			nodes = append(nodes, permitted{srv: srv, user: user})
			dsns = append(dsns, "redis://"+user.Name+":"+user.Password+"@"+srv.Addr)
		}
		open := func(opts ...locker.ClientOption) *locker.Client {
			c, err := redlock.Open(d.name, dsns, append([]locker.ClientOption{unhurried}, opts...)...)
			require.NoError(t, err)
			t.Cleanup(func() { _ = c.Close() })
			return c
		}
		first := open(redlock.Config{Bootstrap: true, NodeTimeout: patience})
		mustUnlock(t, mustLock(t, first.Mutex("orders:first")))
		a, b := open(locker.TTL(renewedTTL)), open()

		nodes[1].set(t, "-set", "-evalsha", "-eval")
		for _, kind := range lockKinds {
			lease := mustLock(t, kind.against(a, "orders:"+kind.name))
			_, err := kind.on(b, lease.Name()).TryLock(soon(t))
			assert.ErrorIs(t, err, locker.ErrLocked)
			assert.True(t, survivesRenewals(lease, 1), "%v", lease.Err())
			mustUnlock(t, lease)
		}

		held := map[string]*locker.Lease{}
		waits := map[string]<-chan lockResult{}
		for _, kind := range lockKinds {
			held[kind.name] = mustLock(t, kind.against(a, "orders:held:"+kind.name))
			waits[kind.name] = goLock(soon(t), kind.on(b, held[kind.name].Name()))
		}
		nodes[2].set(t, "-set", "-evalsha", "-eval")
		for _, kind := range lockKinds {
			for what, call := range map[string]func() error{
				"TryLock": func() error { _, err := kind.on(b, "orders:free").TryLock(soon(t)); return err },
				"Lock":    func() error { _, err := kind.on(b, "orders:free").Lock(soon(t)); return err },
			} {
				took := timed(func() { requireQuorumRefuses(t, call(), what+" of a "+kind.name+" lock") })
				assert.Less(t, took, patience, what)
			}
			select {
			case r := <-waits[kind.name]:
				requireQuorumRefuses(t, r.err, "waiting for a "+kind.name+" lock")
			case <-time.After(patience):
				require.FailNow(t, "a waiter without a permission waits", kind.name)
			}
			assert.ErrorIs(t, lossOf(t, held[kind.name]), locker.ErrLost)
			assert.Error(t, held[kind.name].Unlock(soon(t)))
		}
		for _, node := range nodes {
			assertMortal(t, node.srv)
			node.set(t)
		}
		for _, kind := range lockKinds {
			mustUnlock(t, mustLock(t, kind.on(b, held[kind.name].Name())))
		}
	})
}

// requireQuorumRefuses checks that err says what to grant, and on which nodes: all but the
// first.
func requireQuorumRefuses(t *testing.T, err error, what string) {
	t.Helper()
	refused, ok := errors.AsType[*locker.PermissionError](err)
	require.True(t, ok, "%s: %v", what, err)
	assert.Regexp(t, `\+(set|evalsha|eval)\b`, refused.Grant, what)
	assert.NotErrorIs(t, err, locker.ErrLocked, what)
	assert.NotErrorIs(t, err, locker.ErrUnavailable, what)
	votes, ok := errors.AsType[*locker.QuorumError](err)
	require.True(t, ok, "%s: %v", what, err)
	require.Len(t, votes.Votes, 3, what)
	for i, v := range votes.Votes {
		_, refuses := errors.AsType[*driver.ServerError](v.Err)
		assert.Equal(t, i > 0, refuses, "%s: node %d says %s", what, i, v.Answer)
	}
}
