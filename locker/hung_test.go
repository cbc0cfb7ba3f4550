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

// mustPair takes the lock and gives it up.
func mustPair(t *testing.T, m *Mutex) {
	t.Helper()
	l, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, l.Unlock(t.Context()))
}

// The time that a request has had is not the caller's deadline.
func TestHungServerIsNotTheCallersDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var ends []LockEnd
		c := f.client(t, Observe(Observer{LockEnd: func(_ context.Context, e LockEnd) { ends = append(ends, e) }}))
		held, err := c.Mutex("held", TTL(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		f.hang()
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, "unavailable", ends[len(ends)-1].Outcome())
		<-held.Context().Done()
		lost := context.Cause(held.Context())
		require.ErrorIs(t, lost, ErrLost)
		assert.NotErrorIs(t, lost, context.DeadlineExceeded)
		loss, _ := errors.AsType[*LostError](lost)
		assert.ErrorContains(t, loss.LastErr, "no reply in time")
		assert.NotErrorIs(t, held.Unlock(t.Context()), context.DeadlineExceeded)
	})
}

// The first requests were not answered, and the last one has no time to be.
func TestWaitForAHungServerTellsWhy(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		mustPair(t, c.Mutex("first"))
		f.hang()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := c.Mutex("k").Lock(ctx)
		wait, ok := errors.AsType[*WaitError](err)
		require.True(t, ok, "%v", err)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, wait.Reason, ErrUnavailable)
		assert.NotErrorIs(t, wait.Reason, context.DeadlineExceeded)
	})
}

// What it waits for, and what it pauses, is in the time of an Unlock.
func TestUnlockOfAHungServerTakesNoLongerThanItSays(t *testing.T) {
	inFlight := func(l *Lease) {
		l.tenure.mu.Lock()
		at := l.tenure.renewAt.time()
		l.tenure.mu.Unlock()
		time.Sleep(time.Until(at) + time.Millisecond)
	}
	for name, prepare := range map[string]func(l *Lease){
		"renewal in flight": inFlight,
		"another Unlock": func(l *Lease) {
			go l.Unlock(context.Background())
			synctest.Wait()
		},
		"another Unlock before, and a renewal in flight": func(l *Lease) {
			inFlight(l)
			go l.Unlock(context.Background())
			time.Sleep(unlockTime / 5)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 { // the pauses are random
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					lease := must(t, f.client(t).Mutex("k", TTL(time.Minute), AttemptTimeout(10*unlockTime)))
					f.hang()
					prepare(lease)
					begun := time.Now()
					assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
					assert.LessOrEqual(t, time.Since(begun), unlockTime)
				})
			}
		})
	}
}

// A renewal that hangs for longer leaves Unlock the time to release.
func TestUnlockBesideARenewalThatHangsReleases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k", TTL(time.Minute), AttemptTimeout(3*unlockTime)))
		asked := make(chan struct{})
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if !mutexFamily.renew.runs(cmd) {
					return nil
				}
				close(asked)
				<-ctx.Done()
				return ctx.Err()
			}
		})
		<-asked
		begun := time.Now()
		assert.NoError(t, lease.Unlock(t.Context()))
		assert.Equal(t, DefaultAttemptTimeout, time.Since(begun))
		assert.False(t, f.Exists("k"))
	})
}

// Before Redis 7 a refusal stands in the middle of what a script replies.
func TestTransientReplyInAScriptBefore7(t *testing.T) {
	const readonly = "-READONLY You can't write against a read only replica."
	for _, text := range []string{
		"ERR Error running script (call to f_0123456789012345678901234567890123456789): @user_script:7: @user_script: 7: " + readonly,
		"@user_script: 7: " + readonly,
	} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			held, err := c.Mutex("held", Fenced()).Lock(t.Context())
			require.NoError(t, err)
			demoted := time.Now()
			f.set(func() {
				f.before = func(context.Context, driver.Command) error {
					if time.Since(demoted) < 2*time.Second {
						return driver.NewServerError(text)
					}
					return nil
				}
			})
			_, err = c.Mutex("free", Fenced()).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrUnavailable)
			mustPair(t, c.Mutex("free", Fenced())) // an outage is waited out
			assert.NoError(t, held.Unlock(t.Context()))
		})
	}
}

// A refusal does not tell what has become of the request before it.
func TestExtensionThatIsRefusedAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k", TTL(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		n := 0
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				if n++; n == 2 {
					return driver.NewServerError("NOPERM this user has no permissions to run the 'evalsha' command")
				}
				return nil
			}
			f.after = func(context.Context, driver.Command) error {
				if n == 1 {
					return errLostReply
				}
				return nil
			}
		})
		err = l.Extend(t.Context(), time.Minute)
		assert.ErrorIs(t, err, ErrPermission)
		assert.ErrorIs(t, err, ErrUnknown, "the server has lengthened it to %v", f.TTL("k"))
		f.heal()
		assert.NoError(t, l.Unlock(t.Context()))
	})
}

// Nor is it certain that a release was refused of which an earlier request was not answered.
func TestReleaseThatIsRefusedAfterALostReply(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		n := 0
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				if n++; n > 1 {
					return driver.NewServerError("NOPERM this user has no permissions to run the 'evalsha' command")
				}
				return nil
			}
			f.after = func(context.Context, driver.Command) error { return errLostReply }
		})
		err := lease.Unlock(t.Context())
		assert.ErrorIs(t, err, ErrPermission)
		assert.ErrorIs(t, err, ErrUnknown, "the server has released it")
		assert.False(t, f.Exists("k"))
		f.heal()
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}
