package rwlock_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/rwlock"
)

func TestReadersShareAndAWriterIsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		here, there := rwlock.New(d.client(t), "k"), rwlock.New(d.client(t), "k")
		r1, err := here.RLock(t.Context())
		require.NoError(t, err)
		r2, err := there.TryRLock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, locker.Reading, r1.Mode())
		_, err = there.TryLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrLocked)

		writer := waiting(t, there.Lock)
		assert.Nil(t, granted(writer))
		_, err = here.TryRLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrLocked, "a reader goes before a writer that waits")
		unlock(t, r1, r2)
		w := granted(writer)
		require.NotNil(t, w)
		assert.Equal(t, locker.Writing, w.Mode())
		for _, try := range []func(context.Context) (*locker.Lease, error){here.TryRLock, here.TryLock} {
			_, err = try(t.Context())
			assert.ErrorIs(t, err, locker.ErrLocked)
		}
		unlock(t, w)
		assert.False(t, d.Exists("k"))
	})
}

func TestDoAndRDo(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		here, there := rwlock.New(d.client(t), "k"), rwlock.New(d.client(t), "k")
		failure := assert.AnError
		require.ErrorIs(t, here.RDo(t.Context(), func(ctx context.Context) error {
			lease, ok := locker.FromContext(ctx)
			require.True(t, ok)
			assert.Equal(t, locker.Reading, lease.Mode())
			unlock(t, must(there.TryRLock(t.Context()))(t))
			_, err := there.TryLock(t.Context())
			assert.ErrorIs(t, err, locker.ErrLocked)
			return failure
		}), failure)
		require.NoError(t, here.Do(t.Context(), func(ctx context.Context) error {
			_, err := there.TryRLock(t.Context())
			assert.ErrorIs(t, err, locker.ErrLocked)
			// The context makes it the same owner's.
			return here.Do(ctx, func(ctx context.Context) error {
				return here.RDo(ctx, func(context.Context) error { return nil })
			})
		}))
		assert.False(t, d.Exists("k"))
	})
}

// must returns what gives the lease or fails the test.
func must(lease *locker.Lease, err error) func(t *testing.T) *locker.Lease {
	return func(t *testing.T) *locker.Lease {
		t.Helper()
		require.NoError(t, err)
		return lease
	}
}

func TestAReaderBecomesAWriterAndBack(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		rw, there := rwlock.New(d.client(t), "k", locker.Fenced()), rwlock.New(d.client(t), "k", locker.Fenced())
		unlock(t, must(rw.Lock(t.Context()))(t))
		reading, other := must(rw.RLock(t.Context()))(t), must(there.RLock(t.Context()))(t)
		assert.Equal(t, reading.Token(), other.Token(), "that of the last writer")
		assert.NotZero(t, reading.Token())

		upgraded := waiting(t, reading.Upgrade)
		_, err := other.Upgrade(t.Context())
		assert.ErrorIs(t, err, locker.ErrDeadlock)
		_, err = other.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, locker.ErrDeadlock)
		assert.Nil(t, granted(upgraded))
		unlock(t, other)
		writing := granted(upgraded)
		require.NotNil(t, writing)
		assert.Greater(t, writing.Token(), reading.Token())

		again, err := writing.Downgrade(t.Context())
		require.NoError(t, err)
		assert.ErrorIs(t, writing.Err(), locker.ErrReleased)
		assert.Equal(t, writing.Token(), again.Token())
		unlock(t, must(there.TryRLock(t.Context()))(t), again, reading)
		assert.False(t, d.Exists("k"))
	})
}

func TestAttachAndRAttach(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		here, there := rwlock.New(d.client(t), "k"), rwlock.New(d.client(t), "k")
		sides := []struct {
			lock, attach, other func(id string) (*locker.Lease, error)
		}{
			{
				lock:   func(string) (*locker.Lease, error) { return here.RLock(t.Context()) },
				attach: func(id string) (*locker.Lease, error) { return there.RAttach(t.Context(), id) },
				other:  func(id string) (*locker.Lease, error) { return there.Attach(t.Context(), id) },
			}, {
				lock:   func(string) (*locker.Lease, error) { return here.Lock(t.Context()) },
				attach: func(id string) (*locker.Lease, error) { return there.Attach(t.Context(), id) },
				other:  func(id string) (*locker.Lease, error) { return there.RAttach(t.Context(), id) },
			},
		}
		for _, side := range sides {
			lease := must(side.lock(""))(t)
			id, err := lease.Detach(t.Context(), time.Minute)
			require.NoError(t, err)
			_, err = side.other(id)
			assert.ErrorIs(t, err, locker.ErrTaken, "it is not of that side")
			assert.ErrorContains(t, err, "one for "+string(lease.Mode()))
			assert.NotContains(t, err.Error(), "somebody else's")
			taken := must(side.attach(id))(t)
			assert.Equal(t, lease.Mode(), taken.Mode())
			assert.Equal(t, lease.Owner(), taken.Owner())
			_, err = side.attach(id)
			assert.ErrorIs(t, err, locker.ErrTaken)
			unlock(t, taken)
			_, err = side.attach(id)
			assert.ErrorIs(t, err, locker.ErrAbsent)
		}
	})
}

// Readers have ReadTTL, wherever it stands, and without it the TTL.
func TestReadTTL(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		ttl, readTTL := locker.TTL(time.Hour), locker.ReadTTL(time.Minute)
		plain, of := d.client(t), d.client(t, readTTL)
		for _, tt := range []struct {
			rw          *rwlock.Lock
			write, read time.Duration
		}{
			{rwlock.New(plain, "k"), locker.DefaultTTL, locker.DefaultTTL},
			{rwlock.New(plain, "k", ttl), time.Hour, time.Hour},
			{rwlock.New(plain, "k", ttl, readTTL), time.Hour, time.Minute},
			{rwlock.New(plain, "k", readTTL, ttl), time.Hour, time.Minute},
			{rwlock.New(of, "k", ttl), time.Hour, time.Minute},
			{rwlock.New(of, "k", ttl, locker.ReadTTL(2*time.Minute)), time.Hour, 2 * time.Minute},
		} {
			lease := must(tt.rw.Lock(t.Context()))(t)
			assert.Equal(t, tt.write, d.TTL("k"))
			unlock(t, lease)
			lease = must(tt.rw.RLock(t.Context()))(t)
			assert.Equal(t, tt.read, d.TTL("k"))
			unlock(t, lease)
		}
	})
}

// An option that says how the lock is taken does not make a reader a writer.
func TestTheMethodDecidesOnTheSide(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		for what, rw := range map[string]*rwlock.Lock{
			"for reading":            rwlock.New(d.client(t), "k", locker.ForReading()),
			"for writing":            rwlock.New(d.client(t), "k", locker.ForWriting()),
			"a client's for reading": rwlock.New(d.client(t, locker.ForReading()), "k"),
			"a client's for writing": rwlock.New(d.client(t, locker.ForWriting()), "k"),
			"a reentrant client's":   rwlock.New(d.client(t, locker.Reentrant()), "k"),
		} {
			reading := must(rw.RLock(t.Context()))(t)
			assert.Equal(t, locker.Reading, reading.Mode(), what)
			unlock(t, reading)
			writing := must(rw.Lock(t.Context()))(t)
			assert.Equal(t, locker.Writing, writing.Mode(), what)
			unlock(t, writing)
		}
	})
}

// A name or an option that cannot be is reported by every method, and nothing is sent.
func TestWhatCannotBeIsInvalid(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		c := d.client(t)
		for what, rw := range map[string]*rwlock.Lock{
			"no name":         rwlock.New(c, ""),
			"a reserved name": rwlock.New(c, "__golocker:k"),
			"a long name":     rwlock.New(c, strings.Repeat("k", 1025)),
			"a nil option":    rwlock.New(c, "k", nil),
			"another kind":    rwlock.New(c, "k", locker.Reentrant()),
			"a short TTL":     rwlock.New(c, "k", locker.TTL(time.Millisecond)),
			"a short ReadTTL": rwlock.New(c, "k", locker.ReadTTL(time.Millisecond)),
			"the zero Owner":  rwlock.New(c, "k", locker.As(locker.Owner{})),
			"no owner's name": rwlock.New(c, "k", locker.As(locker.NamedOwner(""))),
		} {
			work := func(context.Context) error { t.Error(what, ": it runs"); return nil }
			for _, lock := range []func(context.Context) (*locker.Lease, error){rw.RLock, rw.TryRLock, rw.Lock, rw.TryLock} {
				_, err := lock(t.Context())
				assert.ErrorIs(t, err, locker.ErrInvalid, what)
			}
			assert.ErrorIs(t, rw.Do(t.Context(), work), locker.ErrInvalid, what)
			assert.ErrorIs(t, rw.RDo(t.Context(), work), locker.ErrInvalid, what)
		}
		for _, attach := range []func(context.Context, string) (*locker.Lease, error){
			rwlock.New(c, "").Attach, rwlock.New(c, "").RAttach, rwlock.New(c, "k").Attach, rwlock.New(c, "k").RAttach,
		} {
			_, err := attach(t.Context(), "no id")
			assert.ErrorIs(t, err, locker.ErrInvalid)
		}
		assert.Zero(t, d.dials.Load(), "something was sent")
	})
}

// A client that was not checked for an error is told as that, where it is used first.
func TestNewOfANilClientSaysSo(t *testing.T) {
	assert.PanicsWithValue(t, "rwlock: New with a nil Client; give it what locker.New or locker.Open has returned, once that is checked for an error",
		func() { rwlock.New(nil, "x") })
}

func TestErrorsOfOtherKindsAndOfTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		c := d.client(t)
		rw := rwlock.New(c, "k", locker.WaitTimeout(time.Second))
		assert.Equal(t, "k", rw.Name())
		mutex := must(c.Mutex("k").Lock(t.Context()))(t)
		_, err := rw.RLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrForeign)
		unlock(t, mutex)

		writing := must(rw.Lock(t.Context()))(t)
		_, err = c.Mutex("k").Lock(t.Context())
		assert.ErrorIs(t, err, locker.ErrForeign)
		begun := time.Now()
		_, err = rw.RLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrWaitTimeout)
		assert.ErrorIs(t, err, locker.ErrLocked)
		assert.Equal(t, time.Second, time.Since(begun))
		_, err = rw.RLock(locker.WithOwner(writing.Context(), locker.NewOwner()))
		assert.ErrorIs(t, err, locker.ErrDeadlock)
		unlock(t, writing)
		require.NoError(t, c.Close())
		_, err = rw.RLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrClosed)
	})
}

// One Lock serves any number of goroutines, and locks made of one list of options do
// not disturb each other.
func TestConcurrentUse(t *testing.T) {
	bubble(t, func(t *testing.T, d deployment) {
		c := d.client(t)
		shared := append(make([]locker.Option, 0, 8), locker.Fenced())
		var all sync.WaitGroup
		var readers, writers, mostReaders atomic.Int32
		for range 8 {
			all.Go(func() {
				rw := rwlock.New(c, "k", shared...)
				var last locker.Token
				for range 20 {
					assert.NoError(t, rw.Do(t.Context(), func(ctx context.Context) error {
						assert.EqualValues(t, 1, writers.Add(1))
						assert.Zero(t, readers.Load())
						lease, _ := locker.FromContext(ctx)
						assert.Greater(t, lease.Token(), last)
						last = lease.Token()
						time.Sleep(time.Millisecond)
						writers.Add(-1)
						return nil
					}))
					assert.NoError(t, rw.RDo(t.Context(), func(ctx context.Context) error {
						n := readers.Add(1)
						assert.Zero(t, writers.Load())
						time.Sleep(time.Millisecond)
						for most := mostReaders.Load(); n > most && !mostReaders.CompareAndSwap(most, n); most = mostReaders.Load() {
						}
						readers.Add(-1)
						return nil
					}))
				}
			})
		}
		all.Wait()
		assert.Greater(t, int(mostReaders.Load()), 1, "readers never met")
		assert.False(t, d.Exists("k"))
	})
}
