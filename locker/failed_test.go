package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestErrorsNameThePackageOnce(t *testing.T) {
	err := failed(`unlock "locker: k"`, ErrUnknown, nil, context.Canceled)
	assert.EqualError(t, err, `locker: unlock "locker: k": outcome unknown: context canceled`)
	assert.ErrorIs(t, err, ErrUnknown)
	assert.ErrorIs(t, err, context.Canceled)

	assert.EqualError(t, &WaitError{Name: "k"}, `locker: gave up waiting for "k" after 0s: <nil>`)

	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		f.set(func() { f.before = fails })
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, broken := c.ForceRelease(ctx, "k")
		for _, err := range []error{broken, lease.Extend(ctx, DefaultTTL), lease.Unlock(ctx), c.Close()} {
			assert.ErrorIs(t, err, ErrUnknown)
			assert.Regexp(t, "^locker: ", err)
			assert.NotRegexp(t, `: locker: |\n`, err)
		}
	})
}

func TestOutageNamesThePackageOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		f.hang()
		assert.EqualError(t, lease.Unlock(t.Context()), `locker: unlock "k": outcome unknown: server unavailable: no reply in time (context deadline exceeded)`)
		_, err := lease.mutex.TryLock(t.Context())
		assert.EqualError(t, err, `locker: server unavailable: no reply in time (context deadline exceeded)`)
		f.heal()
	})
}

// What a driver says is told in the words of this package, and stays in the chain.
func TestWhatADriverSaysIsToldInTheWordsOfThePackage(t *testing.T) {
	words := []error{ErrClosed, ErrUnavailable, ErrInvalid, ErrPermission, ErrForeign, driver.ErrUnsupported}
	odd := driver.NewServerError("ERR an error that nobody knows")
	for _, test := range []struct{ err, word error }{
		{driver.ErrClosed, ErrClosed},
		{driver.NotSent(fmt.Errorf("pool: %w", driver.ErrClosed)), ErrClosed},
		{errLostReply, ErrUnavailable},
		{driver.NewServerError("LOADING Redis is loading the dataset in memory"), ErrUnavailable},
		{driver.NewServerError("NOPERM this user has no permissions to run the 'zadd' command"), ErrPermission},
		{driver.NewServerError("WRONGTYPE Operation against a key holding the wrong kind of value"), ErrForeign},
		{fmt.Errorf("%w: EVAL", driver.ErrUnsupported), driver.ErrUnsupported},
		{odd, odd},
	} {
		told := requestError("k", test.err)
		for _, word := range words {
			assert.Equal(t, word == test.word, errors.Is(told, word), "%v is %v", told, word)
		}
		if test.word != ErrClosed {
			assert.ErrorIs(t, told, test.err)
		}
		assert.Regexp(t, "^locker: ", told)
		assert.NotRegexp(t, ": locker: ", told)
	}
	for _, said := range []error{nil, ErrClosed, failed("ask", ErrUnavailable, errLostReply), invalid("a node twice")} {
		assert.Equal(t, said, requestError("k", said), "is in these words already")
	}
}

// Whoever reads an error in a log must see from it what has failed.
func TestErrorsSayWhichCallHasFailed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		plain, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		entered, err := c.Mutex("x", Reentrant()).Lock(t.Context())
		require.NoError(t, err)
		again, err := c.Mutex("x", Reentrant()).Lock(entered.Context())
		require.NoError(t, err)
		calls := map[string]func(ctx context.Context) error{
			`detach "k"`:           func(ctx context.Context) error { _, err := plain.Detach(ctx, time.Minute); return err },
			`detach "x"`:           func(ctx context.Context) error { _, err := again.Detach(ctx, time.Minute); return err },
			`extend "k"`:           func(ctx context.Context) error { return plain.Extend(ctx, time.Minute) },
			`inspect "k"`:          func(ctx context.Context) error { _, err := c.Inspect(ctx, "k"); return err },
			`force release of "k"`: func(ctx context.Context) error { _, err := c.ForceRelease(ctx, "k"); return err },
		}
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NewServerError("OOM not enough memory") }
		})
		for what, call := range calls {
			err := call(t.Context())
			assert.ErrorContains(t, err, "locker: "+what+": ")
			assert.ErrorContains(t, err, "OOM", what)
		}
		f.hang()
		for what, call := range calls {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("my cause"))
			err := call(ctx)
			assert.ErrorContains(t, err, "locker: "+what+": ")
			assert.ErrorContains(t, err, "my cause", what)
			assert.ErrorIs(t, err, context.DeadlineExceeded, what)
			cancel()
		}
		f.set(func() { f.before = nil })
		_, err = plain.Detach(t.Context(), time.Millisecond)
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "detach with a TTL of 1ms")

		taken := must(t, c.Mutex("t"))
		f.Del("k")
		require.NoError(t, f.Set("t", "somebody"))
		assert.EqualError(t, plain.Unlock(t.Context()), `locker: unlock "k": `+bare(ErrAbsent))
		assert.EqualError(t, taken.Unlock(t.Context()), `locker: unlock "t": `+bare(ErrTaken))
	})
}

// The caller's own cause must not hide that it was the caller's context that ended: a program
// that asks for context.Canceled would take its own end for a failure of the lock.
func TestACallThatItsContextEndsSaysSoWhateverTheCause(t *testing.T) {
	why := errors.New("another part has failed")
	forEachLease(t, func(t *testing.T, f *fakeDeployment, lease *Lease) {
		over, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		_, detached := lease.Detach(over, DefaultTTL)
		for op, err := range map[string]error{"extend": lease.Extend(over, DefaultTTL), "detach": detached, "unlock": lease.Unlock(over)} {
			assert.ErrorIs(t, err, why, op)
			assert.ErrorIs(t, err, context.Canceled, op)
		}
	})
	for op, call := range map[string]func(ctx context.Context, lease *Lease) error{
		"extend": func(ctx context.Context, lease *Lease) error { return lease.Extend(ctx, DefaultTTL) },
		"detach": func(ctx context.Context, lease *Lease) error { _, err := lease.Detach(ctx, DefaultTTL); return err },
		"unlock": func(ctx context.Context, lease *Lease) error { return lease.Unlock(ctx) },
	} {
		t.Run(op+"/server down", func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lease := must(t, f.client(t).Mutex("k"))
				f.down()
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, why)
				defer cancel()
				err := call(ctx, lease)
				assert.ErrorIs(t, err, why)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, ErrUnavailable)
			})
		})
	}
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		f.hang()
		first, other := make(chan error), make(chan error)
		go func() { first <- lease.Unlock(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { other <- lease.Unlock(ctx) }()
		synctest.Wait()
		cancel(why)
		err := <-other // it waited for the first
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, context.Canceled)
		assert.ErrorIs(t, err, ErrUnknown)
		<-first
	})
}

// What has become of another lock is not what has become of this one: who asks the error would
// believe it lost that is held, or free that is not.
func TestACallThatTheLossOfAnotherLockEndsDoesNotSpeakOfThisOne(t *testing.T) {
	for name, lose := range map[string]func(f *fakeDeployment){
		"absent":   func(f *fakeDeployment) { f.Del("outer") },
		"taken":    func(f *fakeDeployment) { f.Set("outer", "somebody else's"); f.SetTTL("outer", time.Hour) },
		"deadline": func(f *fakeDeployment) { f.set(func() { f.before = fails }) },
	} {
		t.Run(name, func(t *testing.T) {
			s := &seen{}
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t, s.observer())
				outer := must(t, c.Mutex("outer", TTL(10*time.Second)))
				inner := must(t, c.Mutex("inner", TTL(time.Hour)))
				lose(f)
				<-outer.Context().Done()
				require.ErrorIs(t, outer.Err(), ErrLost)
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(outer.Err()) // as an errgroup does whose part has returned it
				f.set(func() { f.before = nil })
				_, detached := inner.Detach(ctx, time.Hour)
				extended := inner.Extend(ctx, time.Hour)
				require.NoError(t, inner.Err())
				status, err := c.Inspect(t.Context(), "inner")
				require.NoError(t, err)
				_, broken := c.ForceReleaseFrom(ctx, "inner", status.Holders...)
				for op, err := range map[string]error{"detach": detached, "extend": extended, "break": broken, "unlock": inner.Unlock(ctx)} {
					assert.ErrorIs(t, err, context.Canceled, op)
					assert.ErrorContains(t, err, `lock "outer" lost`, op)
					assert.NotErrorIs(t, err, ErrLost, op)
					assert.NotErrorIs(t, err, ErrNotHeld, op)
				}
				synctest.Wait() // the loss of the other is told by a goroutine of the client
				s.mu.Lock()
				defer s.mu.Unlock()
				i := slices.IndexFunc(s.holds, func(e HoldEnd) bool { return e.Name == "inner" })
				require.GreaterOrEqual(t, i, 0)
				assert.Equal(t, "unconfirmed", s.holds[i].Outcome(), "it is no loss")
			})
		})
	}
}

// A driver may take long to find out that nobody takes its connections. The try for which there is
// less time ends without that.
func TestWhatEarlierTriesCameToIsTold(t *testing.T) {
	refused := driver.NotSent(errors.New("connection refused"))
	for name, fail := range map[string]func(ctx context.Context, lease *Lease) error{
		"unlock":              func(_ context.Context, lease *Lease) error { return lease.Unlock(context.Background()) },
		"unlock with its ctx": func(ctx context.Context, lease *Lease) error { return lease.Unlock(ctx) },
		"extend":              func(ctx context.Context, lease *Lease) error { return lease.Extend(ctx, time.Minute) },
		"renewal": func(_ context.Context, lease *Lease) error {
			<-lease.Context().Done()
			return context.Cause(lease.Context())
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lease, err := f.client(t).Mutex("k", TTL(10*time.Second)).Lock(t.Context())
				require.NoError(t, err)
				f.set(func() {
					f.before = func(ctx context.Context, _ driver.Command) error {
						select {
						case <-time.After(1100 * time.Millisecond):
							return refused
						case <-ctx.Done():
							return ctx.Err()
						}
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), 3300*time.Millisecond) // in the midst of the third try
				defer cancel()
				err = fail(ctx, lease)
				assert.ErrorContains(t, err, "connection refused")
				assert.NotContains(t, err.Error(), "no reply")
			})
		})
	}
}

// What is told for the reason of a try that was cut short says nothing of what became of that one.
func TestUnlockWhoseLastTryWasCutShortIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k", NoRenewal(), TTL(time.Second)))
		time.Sleep(800 * time.Millisecond)
		begun := time.Now()
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				if time.Since(begun) < 300*time.Millisecond { // the lease has lapsed by then
					return driver.NewServerError("LOADING")
				}
				<-ctx.Done()
				return ctx.Err()
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		defer cancel()
		err := lease.Unlock(ctx)
		assert.ErrorIs(t, err, ErrUnknown)
		assert.ErrorContains(t, err, "LOADING")
	})
}

// A refusal is an answer.
func TestWhatTheServerRefusesIsNotUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NewServerError("NOPERM no") }
		})
		for _, err := range []error{lease.Extend(t.Context(), time.Minute), lease.Unlock(t.Context())} {
			assert.ErrorIs(t, err, ErrPermission)
			assert.NotErrorIs(t, err, ErrUnknown)
		}
		assert.True(t, f.Exists("k"))
		f.heal()
		require.NoError(t, lease.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}
