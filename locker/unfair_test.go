package locker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// enters gives m a waiter that never asks again.
func (f *fakeDeployment) enters(t *testing.T, m *Mutex) {
	r := &request{
		name: m.name, keys: &m.keys, mode: m.mode, id: newID(), tail: "|", ttl: time.Minute, px: "60000",
		fenced: m.cfg.fenced, unfair: m.cfg.unfair,
	}
	_, seq, err := m.client.store.acquire(t.Context(), r, place{reservation: newID(), life: 10 * time.Second})
	require.ErrorIs(t, err, ErrLocked)
	require.NotEmpty(t, seq)
}

func TestUnfairIsTakenOutOfTurn(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": {Unfair()}, "fenced": {Unfair(), Fenced()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				held, err := m.Lock(t.Context())
				require.NoError(t, err)
				f.enters(t, m)
				require.NoError(t, held.Unlock(t.Context()))
				for range 3 { // the waiter is slow to ask
					lease, err := m.TryLock(t.Context())
					require.NoError(t, err)
					require.NoError(t, lease.Unlock(t.Context()))
				}
			})
		})
	}
}

func TestUnfairWaiterIsWokenByTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k", Unfair()).Lock(t.Context())
		require.NoError(t, err)
		var waiting []<-chan *Lease
		for range 3 {
			waiting = append(waiting, background(t, f.client(t).Mutex("k", Unfair())))
			time.Sleep(time.Millisecond)
		}
		begun := time.Now()
		for _, got := range waiting {
			require.NoError(t, held.Unlock(t.Context()))
			held = granted(got)
			require.NotNil(t, held)
		}
		assert.Zero(t, time.Since(begun), "without a poll")
	})
}

// Whoever is fair is granted the lock before those who are not, also if it came later.
func TestFairComesBeforeUnfair(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		unfair := background(t, f.client(t).Mutex("k", Unfair()))
		first := background(t, f.client(t).Mutex("k"))
		time.Sleep(time.Millisecond)
		second := background(t, f.client(t).Mutex("k"))
		for _, got := range []<-chan *Lease{first, second, unfair} {
			require.NoError(t, held.Unlock(t.Context()))
			held = granted(got)
			require.NotNil(t, held)
		}
	})
}

// Of one client, too: whoever is fair does not stand in line behind those who are not.
func TestFairComesBeforeUnfairOfTheSameClient(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		unfair := inLine(t, c.Mutex("k", Unfair()), 2)
		fair := inLine(t, c.Mutex("k"), 2)
		for _, got := range append(fair, unfair...) {
			require.NoError(t, held.Unlock(t.Context()))
			held = granted(got)
			require.NotNil(t, held)
		}
	})
}

// A lease that ran out unnoticed leaves a free lock. A fair newcomer passes those who wait
// unfairly, and hands on to those who are fair.
func TestFairNewcomerPassesUnfairWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced(), TTL(time.Second), NoRenewal())
		_, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.enters(t, f.client(t).Mutex("k", Fenced(), Unfair()))
		time.Sleep(2 * time.Second)
		lease, err := m.TryLock(t.Context())
		require.NoError(t, err)
		f.enters(t, m)
		require.NoError(t, lease.Unlock(t.Context()))
		_, err = m.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "granted to the fair waiter")
	})
}

// Waiters whose messages are lost find the lock free by themselves.
func TestUnfairWaiterPolls(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k", Unfair()).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.noPubSub = true })
		got := background(t, f.client(t).Mutex("k", Unfair()))
		require.NoError(t, held.Unlock(t.Context()))
		begun := time.Now()
		synctest.Wait()
		lease := <-got
		assert.LessOrEqual(t, time.Since(begun), pollInterval)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Locks with owners keep their order, for the sake of writers.
func TestUnfairDoesNotConcernLocksWithOwners(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		read, write := f.client(t).Mutex("k", ForReading(), Unfair()), f.client(t).Mutex("k", ForWriting(), Unfair())
		held, err := read.Lock(t.Context())
		require.NoError(t, err)
		writer := background(t, write)
		reader := background(t, read)
		assert.Nil(t, granted(reader))
		require.NoError(t, held.Unlock(t.Context()))
		lease := granted(writer)
		require.NotNil(t, lease)
		require.NoError(t, lease.Unlock(t.Context()))
		assert.NotNil(t, granted(reader))
	})
}
