package locker

import (
	"context"
	"errors"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// waysToALease are the calls that give one. Nobody else holds the lock then.
var waysToALease = map[string]func(t *testing.T, f *fakeDeployment) *Lease{
	"Lock":      func(t *testing.T, f *fakeDeployment) *Lease { return must(t, f.client(t).Mutex("k")) },
	"reentrant": func(t *testing.T, f *fakeDeployment) *Lease { return must(t, f.client(t).Mutex("k", Reentrant())) },
	"TryLock": func(t *testing.T, f *fakeDeployment) *Lease {
		lease, err := f.client(t).Mutex("k", Fenced()).TryLock(t.Context())
		require.NoError(t, err)
		return lease
	},
	"Attach": func(t *testing.T, f *fakeDeployment) *Lease {
		id, err := must(t, f.client(t).Mutex("k", Reentrant())).Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		lease, err := f.client(t).Mutex("k", Reentrant()).Attach(t.Context(), id)
		require.NoError(t, err)
		return lease
	},
	"Upgrade": func(t *testing.T, f *fakeDeployment) *Lease {
		reading := must(t, f.client(t).Mutex("k", ForReading()))
		writing, err := reading.Upgrade(t.Context())
		require.NoError(t, err)
		require.NoError(t, reading.Unlock(t.Context()))
		return writing
	},
	"Downgrade": func(t *testing.T, f *fakeDeployment) *Lease {
		reading, err := must(t, f.client(t).Mutex("k", ForWriting())).Downgrade(t.Context())
		require.NoError(t, err)
		return reading
	},
}

// forEachLease runs test in a bubble with a lease of each origin.
func forEachLease(t *testing.T, test func(t *testing.T, f *fakeDeployment, lease *Lease)) {
	for way, get := range waysToALease {
		t.Run(way, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) { test(t, f, get(t, f)) })
		})
	}
}

// With the lease's own context work outlived the request, and a SIGTERM.
func TestWorkUnderALeaseHasTheCallersContext(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		type key struct{}
		stopped := errors.New("SIGTERM")
		caller, stop := context.WithCancelCause(context.WithValue(t.Context(), key{}, "trace"))
		caller, cancel := context.WithTimeout(caller, time.Hour)
		defer cancel()
		var release any
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if mutexFamily.release.runs(cmd) || holdFamily.release.runs(cmd) {
					release = ctx.Value(key{})
				}
				return nil
			}
		})
		err := lease.Do(caller, func(ctx context.Context) error {
			assert.Equal(t, "trace", ctx.Value(key{}))
			got, _ := FromContext(ctx)
			assert.Same(t, lease, got)
			want, _ := caller.Deadline()
			deadline, ok := ctx.Deadline()
			assert.True(t, ok)
			assert.Equal(t, want, deadline)
			assert.NoError(t, ctx.Err())
			stop(stopped)
			<-ctx.Done()
			assert.NoError(t, lease.Err(), "it is held until work has ended")
			return context.Cause(ctx)
		})
		assert.Same(t, stopped, err)
		assert.False(t, f.Exists("k"), "though the caller's context has ended")
		assert.Equal(t, "trace", release)
		assert.ErrorIs(t, lease.Err(), ErrReleased)
	})
}

func TestWorkUnderALeaseEndsWithTheLease(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		err := lease.Do(t.Context(), func(ctx context.Context) error {
			f.Del("k")
			<-ctx.Done()
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, ErrLost)
		assert.Same(t, lease.Err(), err, "once, as it is")
	})
}

func TestWorkUnderALeaseThatDoesNotNoticeTheLossIsToldAtTheEnd(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		err := lease.Do(t.Context(), func(context.Context) error { f.Del("k"); return io.EOF })
		assert.ErrorIs(t, err, ErrLost)
		assert.ErrorIs(t, err, ErrAbsent)
		assert.ErrorIs(t, err, io.EOF)
	})
}

// With the caller's context alone, who had the lease waited for itself.
func TestWorkUnderALeaseReentersIt(t *testing.T) {
	for _, opt := range []Option{Reentrant(), ForReading(), ForWriting()} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			m := f.client(t).Mutex("k", opt)
			lease, err := m.TryLock(t.Context())
			require.NoError(t, err)
			inside := false
			require.NoError(t, lease.Do(t.Context(), func(ctx context.Context) error {
				return m.Do(ctx, func(context.Context) error { inside = true; return nil })
			}))
			assert.True(t, inside)
			assert.False(t, f.Exists("k"))
		})
	}
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		err := must(t, m).Do(t.Context(), func(ctx context.Context) error { return m.Do(ctx, nothing) })
		assert.ErrorIs(t, err, ErrDeadlock)
	})
}

func nothing(context.Context) error { return nil }

func TestALeaseIsGivenUpWhateverBecomesOfItsWork(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		assert.PanicsWithValue(t, "in work", func() {
			_ = lease.Do(t.Context(), func(context.Context) error { panic("in work") })
		})
		assert.False(t, f.Exists("k"))
	})
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		var kept context.Context
		go func() {
			_ = lease.Do(t.Context(), func(ctx context.Context) error { kept = ctx; runtime.Goexit(); return nil })
		}()
		synctest.Wait()
		assert.False(t, f.Exists("k"))
		assert.ErrorIs(t, context.Cause(kept), ErrReleased)
	})
}

// Else who has no other Unlock would keep the lock for ever.
func TestALeaseIsGivenUpWhereThereIsNoWork(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		assert.ErrorIs(t, lease.Do(t.Context(), nil), ErrInvalid)
		assert.False(t, f.Exists("k"))
	})
}

func TestALeaseIsGivenUpWhereTheContextPanics(t *testing.T) {
	wherever(t, func(t *testing.T, f *fakeDeployment, ctx brittle) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		recovering(func() { _ = lease.Do(ctx, nothing) })
		nobodyIsLeft(t, f, c)
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		assert.Panics(t, func() { _ = lease.Do(nil, nothing) }) //lint:ignore SA1012 a mistake
		nobodyIsLeft(t, f, c)
	})
}

func TestWorkIsNotBegunUnderAContextThatIsOver(t *testing.T) {
	terminated := errors.New("terminated")
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(terminated)
		err := lease.Do(ctx, func(context.Context) error { t.Error("it runs"); return nil })
		assert.ErrorIs(t, err, terminated)
		assert.ErrorIs(t, err, context.Canceled)
		assert.EqualError(t, err, `locker: do "k": terminated: context canceled`)
		assert.False(t, f.Exists("k"))
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.EqualError(t, must(t, f.client(t).Mutex("k")).Do(ctx, nothing), `locker: do "k": context canceled`)
	})
}

func TestWorkIsNotBegunUnderALeaseThatIsOver(t *testing.T) {
	unexpected := func(context.Context) error { panic("it runs") }
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		unlocked := must(t, c.Mutex("k"))
		require.NoError(t, unlocked.Unlock(t.Context()))
		detached := must(t, c.Mutex("k"))
		_, err := detached.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		f.reset()
		assert.Same(t, ErrReleased, unlocked.Do(t.Context(), unexpected))
		assert.Same(t, ErrReleased, detached.Do(t.Context(), unexpected))
		assert.Empty(t, f.commands())
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lost := must(t, f.client(t).Mutex("k"))
		f.set(func() { f.before = func(context.Context, driver.Command) error { return errors.New("cut") } })
		time.Sleep(DefaultTTL)
		f.set(func() { f.before = nil })
		f.Set("k", "gl1|m|"+newID()+"|0|30000|other|")
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, ctx := range []context.Context{t.Context(), ended} {
			err := lost.Do(ctx, unexpected)
			assert.ErrorIs(t, err, ErrLost)
			assert.Same(t, lost.Err(), err)
		}
		assert.True(t, f.Exists("k"), "theirs is not touched")
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lost := must(t, f.client(t).Mutex("k", MaxHold(time.Second)))
		time.Sleep(time.Second)
		require.True(t, f.Exists("k"), "nobody has given it up")
		assert.ErrorIs(t, lost.Do(t.Context(), unexpected), ErrMaxHold)
		assert.False(t, f.Exists("k"))
	})
}

func TestWorkMayGiveItsLeaseUp(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		require.NoError(t, lease.Do(t.Context(), func(ctx context.Context) error {
			require.NoError(t, lease.Unlock(ctx))
			<-ctx.Done()
			assert.Same(t, ErrReleased, context.Cause(ctx))
			return nil
		}))
		assert.False(t, f.Exists("k"))
	})
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		require.NoError(t, lease.Do(t.Context(), func(ctx context.Context) error {
			_, err := lease.Detach(ctx, time.Minute)
			require.NoError(t, err)
			<-ctx.Done()
			assert.Same(t, ErrReleased, context.Cause(ctx))
			return nil
		}))
		assert.True(t, f.Exists("k"), "it is the next one's")
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		err := must(t, f.client(t).Mutex("k", ForWriting())).Do(t.Context(), func(alone context.Context) error {
			writing, _ := FromContext(alone)
			reading, err := writing.Downgrade(alone)
			require.NoError(t, err)
			return reading.Do(t.Context(), func(ctx context.Context) error {
				assert.Error(t, alone.Err())
				assert.True(t, f.Exists("k"))
				return ctx.Err()
			})
		})
		require.NoError(t, err)
		assert.False(t, f.Exists("k"))
	})
}

func TestOfTwoDoOfALeaseTheFirstToEndGivesItUp(t *testing.T) {
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		second := make(chan error, 1)
		go func() {
			second <- lease.Do(t.Context(), func(ctx context.Context) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		require.NoError(t, lease.Do(t.Context(), nothing))
		assert.Same(t, ErrReleased, <-second)
		assert.False(t, f.Exists("k"))
	})
}

func TestDoOfALeaseThatIsNoneTakesNoWork(t *testing.T) {
	for _, lease := range []*Lease{nil, {}} {
		assert.Panics(t, func() { _ = lease.Do(t.Context(), func(context.Context) error { t.Error("it runs"); return nil }) })
	}
}
