package locker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// crowd gives m waiters that never ask again. Each has a place for life.
func (f *fakeDeployment) crowd(t *testing.T, m *Mutex, n int, life time.Duration) {
	f.crowdAt(t, m, n, place{life: life})
}

func (f *fakeDeployment) crowdAt(t *testing.T, m *Mutex, n int, p place) {
	for range n {
		r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "dead", tail: "|", ttl: time.Minute, px: "60000"}
		p.reservation = newID()
		_, _, err := m.client.store.acquire(t.Context(), r, p)
		require.ErrorIs(t, err, ErrLocked)
		time.Sleep(time.Millisecond)
	}
}

func (f *fakeDeployment) waiters(t *testing.T, m *Mutex) int {
	s, err := m.client.Inspect(t.Context(), m.name)
	require.NoError(t, err)
	return s.Waiters
}

// However many waiters have died, the first who lives has the lock by the release, and
// those behind it keep their order.
func TestDeadWaitersAreSkippedByTheRelease(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "writer": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				held, err := m.Lock(t.Context())
				require.NoError(t, err)
				f.crowd(t, m, 50, 100*time.Millisecond)
				alive := []<-chan *Lease{background(t, f.client(t).Mutex("k", opts...))}
				time.Sleep(time.Millisecond)
				alive = append(alive, background(t, f.client(t).Mutex("k", opts...)))
				time.Sleep(100 * time.Millisecond)
				for _, got := range alive {
					begun := time.Now()
					require.NoError(t, held.Unlock(t.Context()))
					held = granted(got)
					require.NotNil(t, held)
					assert.Zero(t, time.Since(begun))
				}
			})
		})
	}
}

// While the lock is held, those who are alive clear away the dead.
func TestTheDeadDoNotPileUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(time.Hour))
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.crowd(t, m, 500, 10*time.Millisecond)
		assert.LessOrEqual(t, f.waiters(t, m), 100, "newcomers find most of them")
		got := background(t, f.client(t).Mutex("k"))
		time.Sleep(100 * pollInterval)
		assert.Equal(t, 1, f.waiters(t, m), "and who polls the rest, though not each time")
		require.NoError(t, held.Unlock(t.Context()))
		assert.NotNil(t, granted(got))
	})
}

// The keys of the queue go by themselves when all waiters have died.
func TestQueueOfTheDeadIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(time.Hour), NoRenewal())
		_, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.crowd(t, m, 10, 4*time.Second)
		assert.Equal(t, 10, f.waiters(t, m))
		time.Sleep(8 * time.Second)
		assert.Zero(t, f.waiters(t, m))
		assert.Equal(t, []string{"k"}, f.Keys())
	})
}

// A waiter that is paused after its last request is granted the lock for no longer than
// its place would have lasted.
func TestPausedWaiterCostsItsReservation(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(time.Hour))
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.crowd(t, m, 1, 3*time.Second)
		got := background(t, f.client(t).Mutex("k"))
		require.NoError(t, held.Unlock(t.Context()))
		begun := time.Now()
		assert.NotNil(t, <-got)
		assert.LessOrEqual(t, time.Since(begun), 3*time.Second+20*time.Millisecond)
	})
}

// A place that has less than a millisecond left is none: no lease could be given for it, as the
// record of one that lasts 0 ms is deleted at once.
func TestPlaceAboutToEndIsNotGrantedTheLock(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "writer": {ForWriting()}, "reentrant": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				held, err := m.Lock(t.Context())
				require.NoError(t, err)
				const life = 100 * time.Millisecond
				messages := f.NewSubscriber()
				defer messages.Close()
				messages.Subscribe("listens")
				go func() {
					for range messages.Messages() {
					}
				}()
				f.crowdAt(t, m, 1, place{channel: "listens", life: life}) // takes a millisecond
				got := background(t, f.client(t).Mutex("k", opts...))
				time.Sleep(life - time.Millisecond - 500*time.Microsecond)
				begun := time.Now()
				require.NoError(t, held.Unlock(t.Context()))
				lease := granted(got)
				require.NotNil(t, lease)
				assert.Zero(t, time.Since(begun))
				require.NoError(t, lease.Extend(t.Context(), time.Minute))
			})
		})
	}
}

// Who waits by another version of the format is passed over, and keeps its place.
func TestWaitersOfAnotherVersionAreSkippedByTheRelease(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "reentrant": {Reentrant()}, "reader": {ForReading()}, "writer": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				before := opts
				if name == "reader" {
					before = []Option{ForWriting()}
				}
				held := must(t, f.client(t).Mutex("k", before...))
				m := f.client(t).Mutex("k", opts...)
				got := background(t, m)
				other := newID()
				_, err := f.ZAdd(m.keys.queue, 1, other)
				require.NoError(t, err)
				f.HSet(m.keys.entries, other, "gl2|what it wants")
				require.NoError(t, held.Unlock(t.Context()))
				lease := granted(got)
				require.NotNil(t, lease)
				assert.Equal(t, "gl2|what it wants", f.HGet(m.keys.entries, other))
				assert.NoError(t, lease.Unlock(t.Context()))
				_, err = f.ZScore(m.keys.queue, other)
				assert.NoError(t, err)
			})
		})
	}
}

// Who finds a lock that has run out unnoticed lets in those who waited before, and has not got it then, not even as
// the only one who is left.
func TestWhoFindsALockFreeLetsThoseInWhoWaited(t *testing.T) {
	for name, opts := range map[string][]Option{"fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				m := c.Mutex("k", opts...)
				must(t, m)
				c.store.link.counts.Store(false) // else who does not listen is passed over
				w := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "other", tail: "|", ttl: m.ttl, px: m.px, fenced: m.cfg.fenced}
				_, _, err := c.store.acquire(t.Context(), w, place{reservation: newID(), channel: "nobody", life: time.Minute})
				require.ErrorIs(t, err, ErrLocked)
				f.Del("k")
				_, err = m.TryLock(t.Context())
				assert.ErrorIs(t, err, ErrLocked)
				if m.mode.owned() {
					assert.NotEmpty(t, f.HGet("k", w.id))
					return
				}
				record, err := f.Get("k")
				require.NoError(t, err)
				assert.Equal(t, w.id, recordID(record))
			})
		})
	}
}
