package integration_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// A client that does not reach two of five nodes loses nothing.
func TestQuorumPartitionFromAMinorityLosesNothing(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		a, toA := q.wired(t, locker.TTL(quorumTTL))
		b := q.client(t)
		warm(t, a)
		lease := mustLock(t, a.Mutex("held", locker.Fenced()))
		lines{toA[0], toA[3]}.partition()
		var order tokenOrder
		eachKindWorks(t, a, b, &order)
		assert.True(t, survivesRenewals(lease, 2), "%v", lease.Err())
		_, err := b.Mutex("held", locker.Fenced()).TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrLocked)
		toA.heal()
		assert.True(t, survivesRenewals(lease, 1), "%v", lease.Err())
		mustUnlock(t, lease)
		// What was on its way arrives, in any order: an extension may come after the release.
		q.assertEmptyWithin(t, extension+patience/4)
	})
}

// I1 and I2: a holder that does not reach three of five nodes is told that its lease
// has ended before anybody else holds the lock.
func TestQuorumPartitionFromAMajorityEndsTheLeaseInTime(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		timers := watchTimers(t)
		b := q.client(t, locker.Fenced())
		var order tokenOrder
		for round := range 2 {
			for n := 0; ; n++ {
				a, toA := q.wired(t, redlock.Config{NodeTimeout: time.Second}, locker.Fenced(), locker.TTL(partitionTTL))
				warm(t, a)
				if quorumPartitionRound(t, q, a, toA, b, numbered("k", 10*round+n), round, &order) {
					break
				}
				// What was promised supposes that timers are not that late.
				if n == repeats-1 || !timers.late() {
					assert.Fail(t, "two holders", "round %d: the first's context had not ended when the second's Lock returned", round)
					break
				}
			}
		}
	})
}

// quorumPartitionRound returns false if the holder's context had not ended in time.
func quorumPartitionRound(t *testing.T, q fleet, a *locker.Client, toA lines, b *locker.Client, name string, round int, order *tokenOrder) (ok bool) {
	t.Helper()
	lease := mustLock(t, a.Mutex(name))
	order.next(t, lease)
	ctx := lease.Context()
	cut := lines{toA[round], toA[(round+2)%5], toA[(round+3)%5]}
	cut.partition()
	next := <-goLock(soon(t), b.Mutex(name))
	stillRunning, stillValid := ctx.Err() == nil, lease.Valid()
	require.NoError(t, next.err)
	order.next(t, next.lease)
	assert.False(t, stillValid, "two holders: the first believed to be valid when the second's Lock returned")
	assert.ErrorIs(t, context.Cause(ctx), locker.ErrLost)

	_, err := a.Mutex("other").TryLock(soon(t))
	requireNoMajority(t, err, 5)
	_, err = a.Mutex("other").Lock(within(t, 200*time.Millisecond))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	requireNoMajority(t, err, 5)

	// The late holder comes back, and does no harm.
	cut.heal()
	assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrNotHeld)
	assert.True(t, next.lease.Valid())
	mustUnlock(t, next.lease)
	q.assertEmptyWithin(t, partitionTTL+patience/4)
	return !stillRunning
}
