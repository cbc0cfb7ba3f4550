package locker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// brittle is a context whose methods panic from some call on, as those of a web framework's
// context do whose request is over.
type brittle struct {
	context.Context
	left *atomic.Int32
}

func newBrittle(ctx context.Context, calls int) brittle {
	b := brittle{ctx, new(atomic.Int32)}
	b.left.Store(int32(calls))
	return b
}

func (b brittle) broken() bool { return b.left.Load() < 0 }

func (b brittle) use() {
	if b.left.Add(-1) < 0 {
		panic("the request is over")
	}
}

func (b brittle) Deadline() (time.Time, bool) { b.use(); return b.Context.Deadline() }
func (b brittle) Done() <-chan struct{}       { b.use(); return b.Context.Done() }
func (b brittle) Err() error                  { b.use(); return b.Context.Err() }
func (b brittle) Value(key any) any           { b.use(); return b.Context.Value(key) }

// AfterFunc keeps package context from using b in a goroutine of its own, where nobody
// could recover.
func (b brittle) AfterFunc(f func()) (stop func() bool) {
	b.use()
	return context.AfterFunc(b.Context, f)
}

// wherever runs test with contexts that panic at the first call, at the second, and so on,
// until one has not.
func wherever(t *testing.T, test func(t *testing.T, f *fakeDeployment, ctx brittle)) {
	for calls, over := 0, false; !over; calls++ {
		require.Less(t, calls, 100)
		t.Run(fmt.Sprint(calls), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				ctx := newBrittle(t.Context(), calls)
				test(t, f, ctx)
				over = !ctx.broken()
			})
		})
	}
}

// recovering calls f as a server calls a handler.
func recovering(f func()) {
	defer func() { _ = recover() }()
	f()
}

// nobodyIsLeft shows that nothing is left of who has panicked, an hour later.
func nobodyIsLeft(t *testing.T, f *fakeDeployment, c *Client) {
	t.Helper()
	time.Sleep(time.Hour)
	assert.False(t, f.Exists("k"), "renewed for an hour by nobody")
	assert.Zero(t, c.waiterLimit.waiting.Load(), "counted as waiting")
	assert.Empty(t, c.lines.byRecord)
	assert.Empty(t, c.hub.slots)
	assert.NoError(t, c.Close())
}

func TestAContextThatPanicsInLineKeepsNoLock(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}} {
		wherever(t, func(t *testing.T, f *fakeDeployment, ctx brittle) {
			c := f.client(t)
			m := c.Mutex("k", opts...)
			held, err := m.Lock(t.Context())
			require.NoError(t, err)
			f.set(func() { f.before = slowTurns })
			over := make(chan struct{})
			go func() {
				defer close(over)
				recovering(func() {
					lease, err := m.Lock(ctx)
					require.NoError(t, err)
					require.NoError(t, lease.Unlock(t.Context()))
				})
			}()
			time.Sleep(100 * time.Microsecond) // it stands in line
			require.NoError(t, held.Unlock(t.Context()))
			<-over
			nobodyIsLeft(t, f, c)
		})
	}
}

// slowTurns has who is next in line of a fenced lock wait for its token.
func slowTurns(_ context.Context, cmd driver.Command) error {
	if len(cmd.Args) > 1 && cmd.Args[1] == turnScript.sha() {
		time.Sleep(500 * time.Microsecond)
	}
	return nil
}

func TestALineGoesOnBehindAContextThatPanics(t *testing.T) {
	withoutRaceDetector(t)
	wherever(t, func(t *testing.T, f *fakeDeployment, ctx brittle) {
		c, other := f.client(t), f.client(t)
		theirs, err := other.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		over, next := make(chan struct{}), make(chan error, 1)
		go func() {
			defer close(over)
			recovering(func() {
				lease, err := c.Mutex("k").Lock(ctx)
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
			})
		}()
		synctest.Wait()
		go func() {
			lease, err := c.Mutex("k").Lock(t.Context())
			if err == nil {
				err = lease.Unlock(t.Context())
			}
			next <- err
		}()
		synctest.Wait()
		require.NoError(t, theirs.Unlock(t.Context()))
		<-over
		require.NoError(t, <-next)
		nobodyIsLeft(t, f, c)
	})
}

// What waiting cannot mend ends the wait of all, but whose context panics cannot tell them.
func TestALineGoesOnBehindAContextThatPanicsWithAnError(t *testing.T) {
	withoutRaceDetector(t)
	wherever(t, func(t *testing.T, f *fakeDeployment, ctx brittle) {
		c := f.client(t)
		f.Set("k", "foreign")
		asked := make(chan struct{})
		f.set(func() { f.before = func(context.Context, driver.Command) error { <-asked; return nil } })
		over, next := make(chan struct{}), make(chan error, 1)
		go func() {
			defer close(over)
			recovering(func() { _, _ = c.Mutex("k").Lock(ctx) })
		}()
		synctest.Wait()
		go func() {
			waiting, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err := c.Mutex("k").Lock(waiting)
			next <- err
		}()
		synctest.Wait()
		close(asked)
		<-over
		assert.ErrorIs(t, <-next, ErrForeign)
		f.Del("k")
		nobodyIsLeft(t, f, c)
	})
}

func TestDoKeepsNoLockWhereTheContextPanics(t *testing.T) {
	wherever(t, func(t *testing.T, f *fakeDeployment, ctx brittle) {
		c := f.client(t)
		recovering(func() { _ = c.Do(ctx, "k", func(context.Context) error { return nil }) })
		nobodyIsLeft(t, f, c)
	})
}

// The server has executed the request by then.
func TestADriverThatPanicsInTheFirstRequestKeepsNoLock(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}, {Reentrant()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			f.set(func() {
				f.after = func(context.Context, driver.Command) error {
					f.set(func() { f.after = nil })
					panic("in the driver")
				}
			})
			assert.Panics(t, func() { _, _ = c.Mutex("k", append(opts, TTL(24*time.Hour))...).Lock(t.Context()) })
			nobodyIsLeft(t, f, c)
		})
	}
}

// The request has taken a place in the queue by then. A release would grant the lock to that, for
// as long as the place is kept.
func TestADriverThatPanicsWhileItsCallerQueuesLeavesNoPlace(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				held, err := f.client(t).Mutex("k", opts...).Lock(t.Context())
				require.NoError(t, err)
				c := f.client(t)
				f.set(func() {
					f.after = func(_ context.Context, cmd driver.Command) error {
						if cmd.Name() == "EVALSHA" && f.Exists(held.mutex.keys.queue) {
							f.set(func() { f.after = nil })
							panic("in the driver")
						}
						return nil
					}
				})
				assert.Panics(t, func() { _, _ = c.Mutex("k", opts...).Lock(t.Context()) })
				synctest.Wait()
				require.NoError(t, held.Unlock(t.Context()))
				assert.False(t, f.Exists("k"), "held by nobody for %v", f.TTL("k"))
				nobodyIsLeft(t, f, c)
			})
		})
	}
}

// The end of a request's context is heard of in a goroutine where nobody could recover, and the
// context may have been recycled by then.
func TestAContextThatPanicsOnceItHasEndedHarmsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		request, end := context.WithCancel(t.Context())
		ctx := newBrittle(request, 1000)
		c := f.client(t)
		mustPair(t, c.Mutex("other"))
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				<-ctx.Done()
				return driver.NotSent(context.Cause(ctx))
			}
		})
		over := make(chan struct{})
		go func() {
			defer close(over)
			recovering(func() { _, _ = c.Mutex("k").Lock(ctx) })
		}()
		synctest.Wait()
		ctx.left.Store(-1)
		end()
		<-over
		f.set(func() { f.before = nil })
		nobodyIsLeft(t, f, c)
	})
}

// A driver may go on with a request that its caller has given up, and ask the context of it then.
func TestAContextThatPanicsOnceTheCallHasReturnedHarmsNoDriver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		given := make(chan context.Context, 100)
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { given <- ctx; <-ctx.Done(); return ctx.Err() }
		})
		ended, end := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer end()
		ctx := newBrittle(ended, 1000)
		_, err := c.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		ctx.left.Store(0)
		request := <-given
		assert.NotPanics(t, func() {
			assert.Nil(t, request.Value("span"))
			_, _ = request.Deadline()
			assert.ErrorIs(t, request.Err(), context.DeadlineExceeded)
		})
		f.heal()
	})
}

// recycled is the context of a request that serves the next one once it has ended.
type recycled struct{ context.Context }

func (recycled) Err() error { return nil }

// Package context panics, in a goroutine of its own, where a context is done and has no error.
func TestAContextThatIsRecycledEndsWhatADriverDerivesOfIt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		ended, end := context.WithCancel(t.Context())
		l := newContextPool(t.Context()).get(recycled{ended}, time.Minute)
		derived, cancel := context.WithTimeout(l, time.Hour)
		defer cancel()
		end()
		<-derived.Done()
		assert.ErrorIs(t, derived.Err(), context.Canceled)
		l.release(l.Err())
	})
}

// An Unlock that panics while it waits for a renewal under way leaves the release to Close, if not to the
// background.
func TestAContextThatPanicsInUnlockKeepsNoLock(t *testing.T) {
	wherever(t, func(t *testing.T, f *fakeDeployment, ctx brittle) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Args[1] == mutexFamily.renew.sha() {
					<-ctx.Done()
				}
				return ctx.Err()
			}
		})
		time.Sleep(DefaultTTL / 3)
		recovering(func() { _ = lease.Unlock(ctx) })
		assert.NoError(t, c.Close())
		assert.False(t, f.Exists("k"))
	})
}
