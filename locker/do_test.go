package locker

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestContextsCarryTheirLeases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, ok := FromContext(t.Context())
		assert.False(t, ok)
		a, err := c.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		got, ok := FromContext(a.Context())
		assert.True(t, ok)
		assert.Same(t, a, got)

		type key struct{}
		ctx := context.WithValue(a.Context(), key{}, "v")
		require.NoError(t, c.Do(ctx, "b", func(ctx context.Context) error {
			b, _ := FromContext(ctx)
			return c.Do(ctx, "c", func(ctx context.Context) error {
				assert.Equal(t, "v", ctx.Value(key{}))
				var names []string
				for l := range leases(ctx) {
					names = append(names, l.Name())
				}
				assert.Equal(t, []string{"c", "b", "a"}, names)
				for l := range leases(ctx) {
					assert.Equal(t, "c", l.Name())
					break
				}
				assert.Equal(t, []*Lease{b}, slices.Collect(leases(b.Context())), "the lease's own carries no other")
				return nil
			})
		}))
	})
}

// Not every program asks by errors.Is.
func TestDoReturnsTheErrorOfWorkAsItIs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		err := f.client(t).Do(t.Context(), "k", func(context.Context) error { return io.EOF })
		assert.Same(t, io.EOF, err)
	})
}

// The lease's own context ends by Unlock itself, which goes on all the same: it waits for the
// renewal in flight before the release, and for another call.
func TestUnlockUnderItsOwnContext(t *testing.T) {
	for _, twice := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			lease, err := f.client(t).Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			ctx := lease.Context()
			var renewing atomic.Bool
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					renewal := cmd.Args[1] == mutexFamily.renew.sha()
					assert.False(t, !renewal && renewing.Load(), "the release is sent beside the renewal")
					renewing.Store(renewal)
					time.Sleep(time.Second)
					renewing.Store(false)
					return nil
				}
			})
			lease.tenure.mu.Lock()
			at := lease.tenure.renewAt.time()
			lease.tenure.mu.Unlock()
			time.Sleep(time.Until(at) + time.Millisecond)
			require.True(t, renewing.Load())
			begun := time.Now()
			first := make(chan error, 1)
			go func() { first <- lease.Unlock(ctx) }()
			synctest.Wait()
			if twice {
				assert.NoError(t, lease.Unlock(ctx))
			}
			assert.NoError(t, <-first)
			assert.LessOrEqual(t, time.Since(begun), 2*time.Second, "no longer than the renewal and the release")
			assert.False(t, f.Exists("k"))
		})
	}
}

// Unlock ends the context of its own work, which is no end of the caller's patience; but all else is
// that has ended it, and its deadline stays.
func TestUnlockUnderTheContextOfWorkEndsWithTheCallers(t *testing.T) {
	stopped := errors.New("SIGTERM")
	for name, test := range map[string]struct {
		deadline, stop time.Duration // 0: none
		ofAnother      bool          // the context is of work under another lease
		want           time.Duration
		reason         error
	}{
		"stopped before":         {stop: -1, want: 0, reason: stopped},
		"its deadline":           {deadline: time.Second, want: time.Second, reason: context.DeadlineExceeded},
		"stopped, under another": {ofAnother: true, stop: time.Second, want: time.Second, reason: stopped},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				caller, stop := context.WithCancelCause(t.Context())
				if test.deadline > 0 {
					var cancel context.CancelFunc
					caller, cancel = context.WithTimeout(caller, test.deadline)
					defer cancel()
				}
				c := f.client(t)
				lease := must(t, c.Mutex("k"))
				under := lease
				if test.ofAnother {
					under = must(t, c.Mutex("another"))
				}
				require.NoError(t, under.Do(caller, func(ctx context.Context) error {
					f.set(func() {
						f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
					})
					begun := time.Now()
					switch {
					case test.stop < 0:
						stop(stopped)
						synctest.Wait()
					case test.stop > 0:
						time.AfterFunc(test.stop, func() { stop(stopped) })
					}
					err := lease.Unlock(ctx)
					assert.ErrorIs(t, err, ErrUnknown)
					assert.ErrorIs(t, err, test.reason)
					assert.Equal(t, test.want, time.Since(begun))
					f.heal()
					return nil
				}))
			})
		})
	}
}

// Where the loss shows only when the lock is given up, others may have been in beside work.
func TestDoReportsALossThatShowsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for want, lose := range map[error]func(){
			ErrAbsent: func() { f.Del("k") },
			ErrTaken:  func() { f.Set("k", "gl1|m|"+newID()+"|0|30000|other|") },
		} {
			err := c.Do(t.Context(), "k", func(context.Context) error { lose(); return nil })
			assert.ErrorIs(t, err, ErrLost)
			assert.ErrorIs(t, err, want)
			assert.EqualError(t, err, "locker: lock \"k\" lost: "+bare(want))
			f.Del("k")
		}
	})
}

// What becomes of the lock at the end takes nothing from what work has said: a caller that looks for an error of its
// own finds it, whatever else is joined with it.
func TestDoReportsWorksErrorWhateverBecomesOfTheRelease(t *testing.T) {
	release := func(f *fakeDeployment, before func(ctx context.Context) error) {
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if mutexFamily.release.runs(cmd) {
					return before(ctx)
				}
				return nil
			}
		})
	}
	for name, test := range map[string]struct {
		spoil func(f *fakeDeployment)
		want  error // besides work's own; nil: none
	}{
		"released": {func(*fakeDeployment) {}, nil},
		"refused": {func(f *fakeDeployment) {
			release(f, func(context.Context) error {
				return driver.NewServerError("NOREPLICAS Not enough good replicas to write.")
			})
		}, ErrUnknown},
		"not answered": {func(f *fakeDeployment) {
			release(f, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		}, ErrUnknown},
		"lost, and nobody knew": {func(f *fakeDeployment) { f.Del("k") }, ErrAbsent},
		"lost while work ran":   {func(f *fakeDeployment) { f.Del("k"); time.Sleep(DefaultTTL) }, ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				err := f.client(t).Do(t.Context(), "k", func(context.Context) error {
					test.spoil(f)
					return io.EOF
				})
				assert.ErrorIs(t, err, io.EOF)
				if test.want == nil {
					assert.Equal(t, io.EOF, err)
				} else {
					assert.ErrorIs(t, err, test.want)
				}
				f.heal()
				time.Sleep(cleanupPause)
			})
		})
	}
}

// Of a server that refuses the release, be it for a while or for good, nobody is told that the lock is free; but
// work has run, and who does again what an unavailable server has prevented must be able to tell.
func TestDoWhoseReleaseIsRefusedTellsThatWorkHasRun(t *testing.T) {
	for reply, want := range map[string]error{
		"NOREPLICAS Not enough good replicas to write.":                    ErrUnavailable,
		"TRYAGAIN Multiple keys request during rehashing of slot":          ErrUnavailable,
		"NOPERM this user has no permissions to run the 'evalsha' command": ErrPermission,
		"ERR an error that nobody knows":                                   nil,
	} {
		t.Run(reply, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				ran := 0
				err := f.client(t).Do(t.Context(), "k", func(context.Context) error {
					ran++
					f.set(func() {
						f.before = func(_ context.Context, cmd driver.Command) error {
							if mutexFamily.release.runs(cmd) {
								return driver.NewServerError(reply)
							}
							return nil
						}
					})
					return nil
				})
				assert.Equal(t, 1, ran)
				assert.ErrorIs(t, err, ErrUnknown)
				refusal, ok := errors.AsType[*driver.ServerError](err)
				require.True(t, ok, "%v", err)
				assert.Equal(t, reply, refusal.Error())
				if want != nil {
					assert.ErrorIs(t, err, want)
				}
				f.heal()
				time.Sleep(cleanupPause)
				assert.False(t, f.Exists("k"), "it is released in the background")
			})
		})
	}
}
