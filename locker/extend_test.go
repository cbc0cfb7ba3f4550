package locker

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A slow context stands for a goroutine that has no processor when it is about to ask.
type slow struct {
	context.Context
	once sync.Once
	work func()
}

func (s *slow) Err() error {
	s.once.Do(s.work)
	return s.Context.Err()
}

// Nothing is asked for a lease that has been given up meanwhile, in whatever way: it would be for
// who has the lock then, or after the time until which the release is tried.
func TestExtendOfALeaseThatIsGivenUpMeanwhileLengthensNothing(t *testing.T) {
	for name, giveUp := range map[string]func(t *testing.T, f *fakeDeployment, first *Lease){
		"released": func(t *testing.T, _ *fakeDeployment, first *Lease) {
			require.NoError(t, first.Unlock(t.Context()))
		},
		"passed on": func(t *testing.T, _ *fakeDeployment, first *Lease) {
			got := background(t, first.mutex)
			require.NoError(t, first.Unlock(t.Context()))
			require.True(t, first.passed)
			require.True(t, granted(got).Valid())
		},
		"released in the background": func(t *testing.T, f *fakeDeployment, first *Lease) {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if cmd.Args[1] == mutexFamily.release.sha() {
						return driver.NotSent(errors.New("no route"))
					}
					return nil
				}
			})
			first.giveBack()
		},
		"detached": func(t *testing.T, _ *fakeDeployment, first *Lease) {
			_, err := first.Detach(t.Context(), time.Minute)
			require.NoError(t, err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				first, err := f.client(t).Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				ctx := &slow{Context: t.Context(), work: func() { giveUp(t, f, first) }}
				assert.ErrorIs(t, first.Extend(ctx, time.Hour), ErrReleased)
				assert.LessOrEqual(t, f.TTL("k"), time.Minute)
			})
		})
	}
}

// Unlock waits for what may lengthen the lease, so that nothing of it is on its way afterwards. The
// lock is not passed on: the next holder would have it for longer than it asked for.
func TestUnlockWaitsForAnExtend(t *testing.T) {
	for name, fails := range map[string]bool{"is answered": false, "is not executed": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				first, err := f.client(t).Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				got := background(t, first.mutex)
				synctest.Wait()
				answer := make(chan struct{})
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Args[1] != mutexFamily.renew.sha() {
							return nil
						}
						<-answer
						if fails {
							return errLostReply
						}
						return nil
					}
				})
				f.reset()
				extended, unlocked := make(chan error, 1), make(chan error, 1)
				go func() { extended <- first.Extend(t.Context(), time.Hour) }()
				synctest.Wait()
				go func() { unlocked <- first.Unlock(t.Context()) }()
				synctest.Wait()
				assert.False(t, first.Valid())
				assert.Empty(t, unlocked)
				assert.Empty(t, f.commands())
				assert.Empty(t, got)
				begun := time.Now()
				close(answer)
				assert.ErrorIs(t, <-extended, ErrReleased)
				assert.NoError(t, <-unlocked)
				assert.Less(t, time.Since(begun), time.Second, "and no longer")
				require.NotNil(t, granted(got))
				assert.LessOrEqual(t, f.TTL("k"), DefaultTTL)
			})
		})
	}
}

// That the lease is over comes before that ctx is.
func TestExtendOfALeaseThatIsOverTellsThatFirst(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Equal(t, lease.Err(), lease.Extend(ctx, time.Minute))
	})
}

// Close waits for no Extend that has to ask again. What came of its requests is told all the same.
func TestCloseEndsAnExtend(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		f.set(func() { f.after = refusesScript(mutexFamily.renew, errLostReply) })
		extended := make(chan error, 1)
		go func() { extended <- lease.Extend(t.Context(), time.Minute) }()
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
		err := <-extended
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, err, ErrUnknown)
		assert.ErrorIs(t, err, errLostReply)
	})
}

func TestWhatALeaseIsNotForIsInvalidAndAsksNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, reading := must(t, c.Mutex("k")), must(t, c.Mutex("k2", ForReading()))
		f.reset()
		for what, err := range map[string]error{
			"too short":              lease.Extend(t.Context(), MinTTL-1),
			"too long":               lease.Extend(t.Context(), MaxTTL+1),
			"upgrade of a mutex":     failureOf(lease.Upgrade(t.Context())),
			"try to upgrade a mutex": failureOf(lease.TryUpgrade(t.Context())),
			"downgrade of a mutex":   failureOf(lease.Downgrade(t.Context())),
			"downgrade of a reader":  failureOf(reading.Downgrade(t.Context())),
		} {
			assert.ErrorIs(t, err, ErrInvalid, what)
		}
		assert.Empty(t, f.commands())
		assert.True(t, lease.Valid())
		assert.True(t, reading.Valid())
	})
}

// Where memory is short a lease is lengthened and the record does not tell. What asks for less, when it can
// be written again, does not shorten it.
func TestExtendOfARecordThatTellsLessThanItHasOnlyLengthens(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(30*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		f.SetTTL("k", time.Hour)
		require.NoError(t, lease.Extend(t.Context(), time.Minute))
		assert.Equal(t, time.Hour, f.TTL("k"))
	})
}

// A renewal and an Extend are in flight. Unlock waits for both, whichever is answered first.
func TestUnlockWaitsForAnExtendBesideARenewal(t *testing.T) {
	for _, first := range []string{"renewal", "extend"} {
		t.Run(first+" first", func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lease, err := f.client(t).Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				answers := map[string]chan struct{}{"renewal": make(chan struct{}), "extend": make(chan struct{})}
				asked := make(chan string, len(answers))
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Args[1] != mutexFamily.renew.sha() {
							return nil
						}
						what := "renewal"
						if slices.Contains(cmd.Args, millis(time.Hour)) {
							what = "extend"
						}
						asked <- what
						<-answers[what]
						return errLostReply
					}
				})
				require.Equal(t, "renewal", <-asked)
				extended, unlocked := make(chan error, 1), make(chan error, 1)
				go func() { extended <- lease.Extend(t.Context(), time.Hour) }()
				require.Equal(t, "extend", <-asked)
				go func() { unlocked <- lease.Unlock(t.Context()) }()
				synctest.Wait()
				close(answers[first])
				delete(answers, first)
				synctest.Wait()
				assert.Empty(t, unlocked, "another request may lengthen the lease still")
				for _, answer := range answers {
					close(answer)
				}
				assert.ErrorIs(t, <-extended, ErrReleased)
				assert.NoError(t, <-unlocked)
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

// An Extend whose driver panics is not waited for.
func TestUnlockAfterAnExtendThatPanics(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = func(context.Context, driver.Command) error { panic("in the driver") } })
		assert.Panics(t, func() { _ = lease.Extend(t.Context(), time.Minute) })
		f.heal()
		begun := time.Now()
		assert.NoError(t, lease.Unlock(t.Context()))
		assert.Zero(t, time.Since(begun))
	})
}

// The lock is deleted, and the lease given up, while the request is on its way.
func TestExtendThatFindsNothingAfterUnlockSaysReleased(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Args[1] == mutexFamily.renew.sha() {
					lease.giveBack() // it has no time to wait
					synctest.Wait()
				}
				return nil
			}
		})
		assert.ErrorIs(t, lease.Extend(t.Context(), time.Hour), ErrReleased)
		assert.False(t, f.Exists("k"))
	})
}

// A renewal after Extend asks for less than the server keeps the lock for: the release goes on for as long as that.
func TestReleaseGoesOnForAsLongAsAnExtendHasLengthened(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		require.NoError(t, lease.Extend(t.Context(), 10*time.Minute))
		time.Sleep(DefaultTTL / 2) // in which it has been renewed
		f.set(func() { f.before = func(context.Context, driver.Command) error { return errLostReply } })
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		time.Sleep(5 * time.Minute)
		require.True(t, f.Exists("k"))
		f.heal()
		time.Sleep(2 * cleanupPause)
		assert.False(t, f.Exists("k"))
	})
}

// Of a lease that the server does not have any more, Extend tells whether others have the lock by now.
func TestExtendTellsWhetherOthersHaveTheLock(t *testing.T) {
	kinds := maps.Clone(exclusive)
	kinds["reader"] = []Option{ForReading()}
	for kind, opts := range kinds {
		t.Run(kind, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lost := func() *Lease {
					lease := must(t, f.client(t).Mutex("k", append(opts, NoRenewal())...))
					f.Del("k")
					return lease
				}
				err := lost().Extend(t.Context(), time.Minute)
				assert.ErrorIs(t, err, ErrAbsent)
				assert.NotErrorIs(t, err, ErrTaken)
				lease := lost()
				others := must(t, f.client(t).Mutex("k", opts...))
				assert.ErrorIs(t, lease.Extend(t.Context(), time.Minute), ErrTaken)
				assert.NoError(t, others.Unlock(t.Context()))
			})
		})
	}
}

// The server counts whole milliseconds: no more than it has been told counts here.
func TestExtendCountsWholeMillisecondsAsTheServerDoes(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k", NoRenewal()))
		require.NoError(t, lease.Extend(t.Context(), time.Hour+999*time.Microsecond))
		assert.Equal(t, time.Hour, f.TTL("k"))
		assert.Equal(t, time.Now().Add(time.Hour-margin(time.Hour)), lease.Deadline())
	})
}

// The end of ctx is no answer: of a request that it has cut short, and that was the only one, it is told that the
// server has not answered.
func TestExtendThatItsContextCutsShortTellsOfNoAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		f.hang()
		err := lease.Extend(within(t, time.Second), time.Minute)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.ErrorIs(t, err, ErrUnknown)
	})
}
