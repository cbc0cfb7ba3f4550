package locker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func assertCrowded(t *testing.T, err, reason error) {
	t.Helper()
	assert.ErrorIs(t, err, ErrTooManyWaiters)
	assert.ErrorIs(t, err, reason)
	wait, ok := errors.AsType[*WaitError](err)
	require.True(t, ok, "%v", err)
	assert.NotEmpty(t, wait.Name)
	assert.Equal(t, "crowded", LockEnd{Err: err}.Outcome())
}

// Whatever its calls wait for and however, no more of a client wait than it allows.
func TestNoMoreCallsWaitThanMaxWaiters(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		other := f.client(t)
		held, err := other.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		_, err = other.Mutex("hash", Reentrant()).Lock(t.Context())
		require.NoError(t, err)
		_, err = other.Mutex("rw", ForReading()).Lock(t.Context())
		require.NoError(t, err)

		c := f.client(t, MaxWaiters(4))
		reading, err := c.Mutex("rw", ForReading()).Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 4)
		for _, wait := range []func(context.Context) (*Lease, error){
			c.Mutex("k").Lock, c.Mutex("k").Lock, c.Mutex("hash", Reentrant()).Lock, reading.Upgrade,
		} {
			go func() {
				_, err := wait(ctx)
				ended <- err
			}()
		}
		time.Sleep(10 * time.Millisecond)
		begun := time.Now()
		for name, m := range map[string]*Mutex{
			"in line": c.Mutex("k"), "by itself": c.Mutex("k", Unfair(), Retry(Constant(time.Second))), "its first": c.Mutex("rw", ForWriting()),
			"reentrant": c.Mutex("hash", Reentrant()), "for a time": c.Mutex("k", WaitTimeout(time.Minute)),
		} {
			_, err := m.Lock(t.Context())
			assertCrowded(t, err, ErrLocked)
			assertCrowded(t, m.Do(t.Context(), func(context.Context) error { return nil }), ErrLocked)
			_, err = m.TryLock(t.Context())
			assert.ErrorIs(t, err, ErrLocked, name)
			assert.NotErrorIs(t, err, ErrTooManyWaiters, name)
		}
		for _, opts := range [][]Option{nil, {Reentrant()}, {Fenced()}} {
			lease, err := c.Mutex("free", opts...).Lock(t.Context())
			require.NoError(t, err, "a lock that is free needs no waiting")
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assert.Less(t, time.Since(begun), time.Millisecond)

		// Who leaves makes room.
		cancel()
		for range 4 {
			assert.ErrorIs(t, <-ended, context.Canceled)
		}
		got := background(t, c.Mutex("k"))
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, granted(got))
		assert.Zero(t, c.waiterLimit.waiting.Load())
	})
}

func TestACrowdedCallSaysWhatElseWasWrong(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t, MaxWaiters(1))
		go c.Mutex("k").Lock(t.Context())
		time.Sleep(time.Second)

		ended, end := context.WithCancel(t.Context())
		end()
		_, err = c.Mutex("other").Lock(ended)
		assert.ErrorIs(t, err, context.Canceled)
		assert.NotErrorIs(t, err, ErrTooManyWaiters)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(context.DeadlineExceeded) }
		})
		_, err = c.Mutex("other").Lock(t.Context())
		assertCrowded(t, err, ErrUnavailable)
		f.set(func() { f.before = nil })
		_, err = c.Mutex("").Lock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
		assert.NotErrorIs(t, err, ErrTooManyWaiters)
	})
}

// A server that does not answer is asked by a bounded number of calls, for a bounded time.
func TestACrowdedCallOfAServerThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for name, opts := range map[string][]Option{"in line": nil, "reentrant": {Reentrant()}} {
			c := f.client(t, MaxWaiters(1))
			lease := must(t, c.Mutex("contact"))
			require.NoError(t, lease.Unlock(t.Context()))
			f.hang()
			ctx, cancel := context.WithCancel(t.Context())
			waiting := lockEnds(ctx, c.Mutex(name, opts...))
			synctest.Wait()
			asking := lockEnds(t.Context(), c.Mutex("other", append(opts, WaitTimeout(100*time.Millisecond))...))
			synctest.Wait()
			begun := time.Now()
			_, err := c.Mutex("third", opts...).Lock(t.Context())
			assert.ErrorIs(t, err, ErrTooManyWaiters, name)
			assert.Zero(t, time.Since(begun), name)
			assert.ErrorIs(t, <-asking, ErrWaitTimeout, name)
			assert.Equal(t, 100*time.Millisecond, time.Since(begun), name)
			f.heal()
			cancel()
			<-waiting
			assert.Zero(t, c.waiterLimit.asking.Load()+c.waiterLimit.waiting.Load())
		}
	})
}

// Nobody tells those who found no place in the queue, so they look, whatever their policy.
func TestWhoFindsTheQueueFullLooksOnceASecond(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "reentrant": {Reentrant()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			held := must(t, f.client(t).Mutex("k", opts...))
			deadEntries(f, 10_000, time.Now().Add(time.Hour))
			got := background(t, f.client(t).Mutex("k", append(opts, Retry(Constant(time.Minute)))...))
			time.Sleep(time.Second)
			require.Nil(t, granted(got), name)
			k := newKeys("k")
			f.Del(k.queue)
			f.Del(k.entries)
			require.NoError(t, held.Unlock(t.Context()))
			time.Sleep(pollInterval)
			require.NotNil(t, granted(got), name)
		})
	}
}

// Who was called to lead and ends by a panic of the driver does not wait any more.
func TestPanicOfALaterLeaderIsNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		leader := lockEnds(ctx, c.Mutex("k"))
		synctest.Wait()
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			c.Mutex("k").Lock(t.Context())
		}()
		synctest.Wait()
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				f.set(func() { f.before = nil })
				panic("in the driver")
			}
		})
		cancel()
		assert.ErrorIs(t, <-leader, context.Canceled)
		assert.NotNil(t, <-panicked)
		assert.Zero(t, c.waiterLimit.waiting.Load())
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestMaxWaitersThatCannotBe(t *testing.T) {
	for _, n := range []int{0, -1} {
		_, err := New(newDeployment(t), MaxWaiters(n))
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "TryLock")
	}
}
