package locker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestWaiterIsWokenByTheRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		a, b := f.client(t), f.client(t)
		held, err := a.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		var got *Lease
		go func() {
			lease, err := b.Mutex("k").Lock(t.Context())
			assert.NoError(t, err)
			got = lease
		}()
		synctest.Wait()
		s, err := a.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, 1, s.Waiters)
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		require.NotNil(t, got)
		assert.Zero(t, time.Since(begun), "without a poll")
		assert.NoError(t, got.Unlock(t.Context()))
	})
}

func TestEveryWaiterGetsItsTurn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var inside atomic.Int32
		var wg sync.WaitGroup
		begun := time.Now()
		for range 4 {
			c := f.client(t)
			for range 4 {
				wg.Go(func() {
					err := c.Do(t.Context(), "k", func(context.Context) error {
						assert.EqualValues(t, 1, inside.Add(1))
						time.Sleep(10 * time.Millisecond)
						inside.Add(-1)
						return nil
					})
					assert.NoError(t, err)
				})
			}
		}
		wg.Wait()
		assert.Less(t, time.Since(begun), 500*time.Millisecond, "every release wakes a waiter")
		time.Sleep(time.Minute)
		assert.Empty(t, f.Keys())
	})
}

func TestWaiterWithoutMessagesPolls(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.noPubSub = true
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		done := make(chan *Lease)
		go func() {
			lease, err := f.client(t).Mutex("k").Lock(t.Context())
			assert.NoError(t, err)
			done <- lease
		}()
		time.Sleep(3 * time.Second)
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		<-done
		assert.LessOrEqual(t, time.Since(begun), 256*time.Millisecond)
	})
}

// A mortalConn has no pub/sub, and is cut off once it is dead.
type mortalConn struct {
	driver.Wrapper
	dead *atomic.Bool
}

func (c mortalConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if c.dead.Load() {
		return nil, driver.NotSent(errors.New("cut off"))
	}
	return c.Wrapper.Do(ctx, cmd)
}

// Who looks every second has no use for a place that outlives it for long. It would be granted
// the lock after its death, for the rest of that.
func TestPlaceOfAWaiterWithoutMessagesIsShort(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := f.hold(t)
		var dead atomic.Bool
		dying, err := New(driver.NewConnector(f.Driver(), func(ctx context.Context) (driver.Conn, error) {
			c, err := f.Connect(ctx)
			return mortalConn{driver.Wrapper{Conn: c}, &dead}, err
		}))
		require.NoError(t, err)
		defer dying.Close()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _, _ = dying.Mutex("k", TTL(50*time.Second), Retry(Constant(time.Minute))).Lock(ctx) }()
		time.Sleep(3 * time.Second)
		got := background(t, f.client(t).Mutex("k"))
		time.Sleep(3 * time.Second)
		time.Sleep(pollInterval / 2) // between two of its looks, one of which could get the lock
		dead.Store(true)
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, <-got)
		assert.LessOrEqual(t, time.Since(begun), 2*pollInterval+placeSlack)
	})
}

// Who hears nothing may be granted the lock all the same. However seldom the policy looks,
// that is noticed while it lasts.
func TestWaiterWithoutMessagesTakesNoteOfItsGrant(t *testing.T) {
	for name, slow := range map[string][]ClientOption{
		"a TTL that is short":   {TTL(time.Second), Retry(Constant(3 * time.Second))},
		"a policy that is slow": {Retry(Constant(20 * time.Second))},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				f.noPubSub = true
				c, waiting := f.client(t), f.client(t, slow...)
				held := must(t, c.Mutex("k"))
				done := make(chan struct{})
				go func() {
					defer close(done)
					lease, err := waiting.Mutex("k").Lock(t.Context())
					if assert.NoError(t, err) {
						assert.NoError(t, lease.Unlock(t.Context()))
					}
				}()
				synctest.Wait()
				idle := time.Duration(0)
				had := func() bool {
					select {
					case <-done:
						return true
					default:
						return false
					}
				}
				for turn := 0; turn < 100 && !had(); turn++ { // of another one, who wants it again and again
					time.Sleep(100 * time.Millisecond)
					require.NoError(t, held.Unlock(t.Context()))
					begun := time.Now()
					var err error
					held, err = c.Mutex("k").Lock(t.Context())
					require.NoError(t, err)
					idle = max(idle, time.Since(begun))
					time.Sleep(time.Millisecond)
				}
				assert.True(t, had())
				assert.Less(t, idle, 2*pollInterval)
				require.NoError(t, held.Unlock(t.Context()))
				<-done
			})
		})
	}
}

func TestLostMessageCostsAtMostOnePoll(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			_, err := f.client(t).Mutex("k").Lock(t.Context())
			assert.NoError(t, err)
			close(done)
		}()
		synctest.Wait()
		f.Del("k") // as a foreign DEL: nobody publishes
		begun := time.Now()
		<-done
		assert.LessOrEqual(t, time.Since(begun), pollInterval)
	})
}

func TestCrashedHolderDelaysByItsTTL(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		require.NoError(t, f.Set("k", record(newID(), millis(3*time.Second), "dead|")))
		f.SetTTL("k", 3*time.Second)
		begun := time.Now()
		_, err := f.client(t).Mutex("k", Retry(Constant(time.Hour))).Lock(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 3*time.Second, time.Since(begun), float64(50*time.Millisecond))
	})
}

func TestCancelledWaiterLeavesTheQueueAndPassesTheGrantOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		// The first waiter hears nothing, so that it does not know of its grant.
		f.set(func() { f.noPubSub = true })
		first := f.client(t)
		gaveUp := make(chan error)
		go func() {
			_, err := first.Mutex("k", Retry(Constant(time.Hour))).Lock(ctx)
			gaveUp <- err
		}()
		synctest.Wait()
		f.set(func() { f.noPubSub = false })
		got := make(chan struct{})
		second := f.client(t)
		go func() {
			_, err := second.Mutex("k").Lock(t.Context())
			assert.NoError(t, err)
			close(got)
		}()
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("the second waiter overtook the first")
		default:
		}
		cancel()
		assert.ErrorIs(t, <-gaveUp, context.Canceled)
		<-got
		assert.Zero(t, time.Since(begun))
	})
}

// A waiter whose policy has it sleep for long sees to its place meanwhile, which costs those behind it little once it
// has died.
func TestPlaceOfWhoSleepsForLongIsShort(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, c := must(t, f.client(t).Mutex("k", TTL(100*time.Hour))), f.client(t)
		lockEnds(t.Context(), c.Mutex("k", Retry(Constant(10*time.Hour))))
		synctest.Wait()
		a := &attempt{client: c, req: request{ttl: 100 * time.Hour}, slot: &slot{}}
		p := a.place(time.Now().Add(10 * time.Hour))
		require.NotEmpty(t, p.channel)
		assert.Equal(t, 2*keepPlace+placeSlack, p.life)

		f.reset()
		time.Sleep(keepPlace)
		synctest.Wait()
		assert.Contains(t, f.commands(), "EVALSHA")
		assert.Equal(t, 1, f.waiters(t, held.mutex))
	})
}

// However many wait, each looks again while a grant of which it has not heard lasts, and sees to its place.
func TestEachOfACrowdLooksInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &attempt{client: &Client{hub: idleHub(t)}}
		for i := range 10000 {
			m := &Mutex{}
			m.keys.record = fmt.Sprint(i % 1000)
			a.slot = a.client.hub.join(m, time.Now())
		}
		for ttl, want := range map[time.Duration]time.Duration{
			time.Hour: keepPlace, 10 * time.Second: 5 * time.Second, pollInterval: pollInterval,
		} {
			a.req.ttl = ttl
			assert.Equal(t, want, a.interval(), "with a TTL of %v", ttl)
		}
	})
}

func TestRetryPolicies(t *testing.T) {
	d, again := Constant(time.Second)(7, 0.5)
	assert.Equal(t, time.Second, d)
	assert.True(t, again)

	p := Exponential(10*time.Millisecond, time.Second)
	d, _ = p(1, 0.5)
	assert.Equal(t, 5*time.Millisecond, d)
	d, _ = p(3, 0.5)
	assert.Equal(t, 20*time.Millisecond, d)
	d, _ = p(1000, 0.999)
	assert.InDelta(t, time.Second, d, float64(2*time.Millisecond))

	p = Attempts(3, Constant(time.Second))
	for range 2 { // a policy that was used is as good as new
		for n := 1; n <= 3; n++ {
			_, again := p(n, 0)
			assert.Equal(t, n < 3, again)
		}
	}
}

// A time that was forgotten in a configuration is no attack on the server.
func TestRetryPoliciesThatDoNotSleepAreRefused(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for what, p := range map[string]RetryPolicy{
			"Constant(0)":                               Constant(0),
			"Constant(-1)":                              Constant(-1),
			"Constant(999µs)":                           Constant(999 * time.Microsecond),
			"Exponential(0, 0)":                         Exponential(0, 0),
			"Exponential(0, 1s)":                        Exponential(0, time.Second),
			"Exponential(-1, 1s)":                       Exponential(-1, time.Second),
			"Exponential(10s, 1s)":                      Exponential(10*time.Second, time.Second),
			"Exponential(10s, 0), a forgotten limit":    Exponential(10*time.Second, 0),
			"Attempts(3, Constant(0)), as of a nil one": Attempts(3, Constant(0)),
		} {
			_, err := f.client(t).Mutex("k", Retry(p)).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid, what)
			assert.ErrorContains(t, err, "1ms", what)
		}
		for _, p := range []RetryPolicy{Constant(time.Millisecond), Exponential(time.Millisecond, time.Millisecond)} {
			lease, err := f.client(t).Mutex("k", Retry(p)).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// Also a policy of the application's own does not make a waiter spin.
func TestAPolicyThatDoesNotSleepDoesNotSpin(t *testing.T) {
	withoutRaceDetector(t)
	for _, sleep := range []time.Duration{-time.Second, 0, 1} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			_, err := f.client(t).Mutex("k", TTL(time.Minute)).Lock(t.Context())
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			var sent atomic.Int32
			f.set(func() {
				f.before = func(context.Context, driver.Command) error {
					if sent.Add(1) > 5000 {
						cancel() // no time passes in a bubble in which somebody spins
					}
					return nil
				}
			})
			spinner := func(int, float64) (time.Duration, bool) { return sleep, true }
			_, err = f.client(t).Mutex("k", Retry(spinner)).Lock(ctx)
			assert.ErrorIs(t, err, context.DeadlineExceeded, "%v", sleep)
			assert.Less(t, sent.Load(), int32(600), "%v", sleep)
			assert.Greater(t, sent.Load(), int32(400), "%v", sleep)
		})
	}
}

func TestLimitedAttempts(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"))
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		_, err = c.Mutex("k", Retry(Attempts(3, Constant(time.Second)))).Lock(t.Context())
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "me", locked.Holder.Label)
		assert.LessOrEqual(t, time.Since(begun), 2*time.Second)
	})
}

// To look whether the holder's lease has ended, when it would have without a renewal, is
// not one of the policy's attempts.
func TestRenewalsOfTheHolderUseNoAttemptsUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k", TTL(300*time.Millisecond)).Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		_, err = f.client(t).Mutex("k", Retry(Attempts(3, Constant(3*time.Second)))).Lock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		assert.Equal(t, 6*time.Second, time.Since(begun).Truncate(time.Second))
	})
}

// Nor are the looks of who waits for a server to be there again.
func TestLooksInAnOutageUseNoAttemptsUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		mustPair(t, c.Mutex("first"))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
		})
		begun := time.Now()
		_, err := c.Mutex("k", Retry(Attempts(3, Constant(3*time.Second)))).Lock(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		assert.Equal(t, 6*time.Second, time.Since(begun).Truncate(time.Second))
	})
}

// Close tells who waits in an outage once what has ended the wait, and what was in its way.
func TestWaitInAnOutageIsEndedOnceByClose(t *testing.T) {
	for name, opts := range map[string][]Option{"in line": nil, "alone": {Retry(Constant(time.Second))}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				mustPair(t, c.Mutex("first"))
				f.set(func() {
					f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
				})
				ended := lockEnds(t.Context(), c.Mutex("k", opts...))
				synctest.Wait()
				f.hang()
				time.Sleep(2 * pollInterval) // it asks
				require.ErrorIs(t, c.Close(), ErrUnknown)
				wait, ok := errors.AsType[*WaitError](<-ended)
				require.True(t, ok)
				assert.ErrorIs(t, wait.Cause, ErrClosed)
				assert.ErrorIs(t, wait.Reason, ErrUnavailable)
				_, again := errors.AsType[*WaitError](wait.Reason)
				assert.False(t, again, "%v", wait)
			})
		})
	}
}

func TestManyLeasesNeedFewGoroutinesAndAreAllRenewed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		var leases []*Lease
		for i := range 300 {
			lease, err := c.Mutex(string(rune('a'+i%26))+newID(), TTL(3*time.Second)).Lock(t.Context())
			require.NoError(t, err)
			leases = append(leases, lease)
		}
		time.Sleep(6 * time.Second)
		for _, l := range leases {
			require.True(t, l.Valid())
		}
	})
}

func TestWakeUpThatMeetsABadConnectionIsNotUsedUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k", TTL(time.Hour)).Lock(t.Context())
		require.NoError(t, err)
		got := make(chan struct{})
		go func() {
			_, err := f.client(t).Mutex("k", Retry(Constant(time.Hour))).Lock(t.Context())
			assert.NoError(t, err)
			close(got)
		}()
		synctest.Wait()
		var n atomic.Int32
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Args[1] == mutexFamily.acquire.sha() && n.Add(1) <= resends+1 {
					return errLostReply
				}
				return nil
			}
		})
		begun := time.Now()
		_, err = c.ForceRelease(t.Context(), "k") // which does not grant but tell
		require.NoError(t, err)
		<-got
		assert.LessOrEqual(t, time.Since(begun), 5*time.Second)
	})
}

// The hint that messages arrive came before the request that is made again.
func TestWaiterThatAsksAgainIsToldOnceMessagesArrive(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, c := f.hold(t), f.client(t)
		f.set(func() { f.subscribeErr = errors.New("not yet") })
		mustPair(t, c.Mutex("first"))
		var asked atomic.Int32
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Args[1] != mutexFamily.acquire.sha() || asked.Add(1) != 2 { // the first asks for no place
					return nil
				}
				f.set(func() { f.subscribeErr = nil })
				<-ctx.Done()
				return ctx.Err()
			}
		})
		got := background(t, c.Mutex("k", Retry(Constant(20*time.Second))))
		time.Sleep(DefaultAttemptTimeout)
		synctest.Wait()
		require.True(t, c.hub.listens())
		require.EqualValues(t, 3, asked.Load())
		time.Sleep(pollInterval / 4) // as one that polls it would look now and then
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, <-got)
		assert.Zero(t, time.Since(begun))
	})
}

// Who has a place without messages since there were none yet asks once more when they begin to arrive, whenever it would
// have looked next.
func TestWaiterAsksWhenMessagesBeginToArrive(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, c := f.hold(t), f.client(t)
		f.set(func() { f.subscribeErr = errors.New("not yet") })
		got := background(t, c.Mutex("k", Retry(Constant(20*time.Second))))
		f.set(func() { f.subscribeErr = nil })
		time.Sleep(resubscribePause)
		synctest.Wait()
		require.True(t, c.hub.listens())
		begun := time.Now()
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, <-got)
		assert.Zero(t, time.Since(begun))
	})
}

// A waiter that was paused until its place ran out comes after those who came
// meanwhile, whether or not anybody has cleared its entry away.
func TestPlaceThatRanOutIsNotTakenUpAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k")
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		join := func(r *request, p place) string {
			_, seq, err := c.store.acquire(t.Context(), r, p)
			require.ErrorIs(t, err, ErrLocked)
			return seq
		}
		one := func() (*request, place) {
			return &request{name: "k", keys: &m.keys, mode: modeMutex, id: newID(), tail: "|", ttl: time.Minute, px: "60000"},
				place{reservation: newID(), life: time.Second}
		}
		paused, its := one()
		before := join(paused, its)
		time.Sleep(500 * time.Millisecond)
		other, theirs := one()
		join(other, theirs)
		time.Sleep(700 * time.Millisecond)
		assert.Greater(t, join(paused, its), before)
		require.NoError(t, held.Unlock(t.Context()))
		_, _, err = c.store.acquire(t.Context(), other, theirs)
		assert.NoError(t, err)
	})
}

// The last lease has run out unnoticed, and who waits hears nothing and is passed over.
// The newcomer that finds that out has the lock, whatever its kind.
func TestNewcomerHasALockWhoseOnlyWaiterIsPassedOver(t *testing.T) {
	for _, kind := range []Option{Fenced(), Reentrant(), ForWriting(), ForReading()} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			m := c.Mutex("k", kind, TTL(time.Second), NoRenewal())
			_, err := m.Lock(t.Context())
			require.NoError(t, err)
			c.store.link.counts.Store(true)
			mode := m.mode
			if mode == modeRead {
				mode = modeWrite
			}
			deaf := &request{name: "k", keys: &m.keys, mode: mode, id: newID(), owner: "deaf", tail: "|", ttl: time.Minute, px: "60000"}
			_, _, err = c.store.acquire(t.Context(), deaf, place{reservation: newID(), channel: "nobody's", life: time.Minute})
			require.ErrorIs(t, err, ErrLocked)
			time.Sleep(2 * time.Second)
			_, err = m.TryLock(t.Context())
			require.NoError(t, err)
		})
	}
}

// A waiter whose messages nobody hears is passed over once, also if it looks in between, or it would be for as
// long as others come.
func TestWaiterThatNobodyHearsIsPassedOverOnce(t *testing.T) {
	for _, kind := range []Option{Fenced(), Reentrant(), ForWriting()} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			m := c.Mutex("k", kind)
			held := must(t, m)
			c.store.link.counts.Store(true)
			deaf := &request{name: "k", keys: &m.keys, mode: m.mode, id: newID(), owner: "deaf", tail: "|", ttl: time.Minute, px: "60000"}
			p := place{reservation: newID(), channel: "nobody's", life: time.Minute}
			_, _, err := c.store.acquire(t.Context(), deaf, p)
			require.ErrorIs(t, err, ErrLocked)
			next := background(t, f.client(t).Mutex("k", kind))
			require.NoError(t, held.Unlock(t.Context()))
			held = granted(next)
			require.NotNil(t, held)
			_, _, err = c.store.acquire(t.Context(), deaf, p)
			require.ErrorIs(t, err, ErrLocked)
			ctx, cancel := context.WithCancel(t.Context())
			go f.client(t).Mutex("k", kind).Lock(ctx)
			synctest.Wait()
			held.tenure.client.store.link.counts.Store(true)
			require.NoError(t, held.Unlock(t.Context()))
			status, err := c.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.Len(t, status.Holders, 1)
			assert.Equal(t, fingerprint(deaf.id), status.Holders[0].leases, "it is its turn")
			cancel()
			synctest.Wait()
		})
	}
}

// A context of the application's own may end with an error that == panics on.
type manyErrors []string

func (manyErrors) Error() string { return "many things went wrong" }

type endsWithMany struct{ context.Context }

func (c endsWithMany) Err() error {
	if c.Context.Err() == nil {
		return nil
	}
	return manyErrors{"one", "two"}
}

// Value keeps package context from finding a context of its own inside, whose cause it would tell.
func (endsWithMany) Value(any) any { return nil }

func (c endsWithMany) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.Context, f) }

func TestAContextEndsWithAnErrorThatCannotBeCompared(t *testing.T) {
	for name, opts := range map[string][]Option{"in line": nil, "alone": {Reentrant()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			must(t, f.client(t).Mutex("k", opts...))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := f.client(t).Mutex("k", opts...).Lock(endsWithMany{ctx})
			_, isWait := errors.AsType[*WaitError](err)
			assert.True(t, isWait, name)
			_, isMany := errors.AsType[manyErrors](err)
			assert.True(t, isMany, name)
			assert.ErrorIs(t, err, ErrLocked, name)
		})
	}
}

// By an unsubscribed connection no subscription comes about, nor fails.
type unsubscribed struct{ *fakeConn }

func (unsubscribed) Subscribe(ctx context.Context) (driver.Subscription, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Who waits does so for a subscription no longer than for a moment, nor than its context lasts; and Close not at all.
func TestSubscriptionThatDoesNotComeAboutHoldsUpNobody(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := must(t, f.client(t).Mutex("k"))
		c, err := New(driver.NewConnector(f.Driver(), func(ctx context.Context) (driver.Conn, error) {
			conn, err := f.Connect(ctx)
			return unsubscribed{conn.(*fakeConn)}, err
		}))
		require.NoError(t, err)
		defer c.Close()
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), settleTime/5)
		defer cancel()
		_, err = c.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, settleTime/5, time.Since(begun))

		unlocked := make(chan error, 1) // it is waited for: the lock may be had before Unlock is answered
		time.AfterFunc(settleTime, func() { unlocked <- held.Unlock(t.Context()) })
		begun = time.Now()
		_, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.LessOrEqual(t, time.Since(begun), settleTime+2*pollInterval)
		require.NoError(t, <-unlocked)

		begun = time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
	})
}

// Nor does one node's hold up who hears of the lock by another's.
func TestQuorumSubscriptionThatDoesNotComeAboutHoldsUpNobody(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		must(t, nodes.client(t, QuorumConfig{}).Mutex("k"))
		c, err := NewQuorum([]driver.Connector{nodes[0], nodes[1], driver.NewConnector(nodes[2].Driver(), func(ctx context.Context) (driver.Conn, error) {
			conn, err := nodes[2].Connect(ctx)
			return unsubscribed{conn.(*fakeConn)}, err
		})})
		require.NoError(t, err)
		defer c.Close()
		m := c.Mutex("k")
		ended := lockEnds(within(t, settleTime/2), m)
		time.Sleep(settleTime / 4)
		synctest.Wait()
		assert.NotZero(t, nodes.holding(m.keys.queue), "it has its place")
		assert.ErrorIs(t, <-ended, ErrLocked)
	})
}

// On a channelless connection subscriptions come about that take no channel.
type channelless struct {
	*fakeConn
	open *atomic.Int32
}

func (c channelless) Subscribe(context.Context) (driver.Subscription, error) {
	c.open.Add(1)
	return channellessSubscription{open: c.open}, nil
}

type channellessSubscription struct {
	driver.Subscription
	open *atomic.Int32
}

func (channellessSubscription) Add(context.Context, ...string) error {
	return errors.New("no channel for you")
}

func (s channellessSubscription) Close() error {
	s.open.Add(-1)
	return nil
}

// A subscription that hears nothing is closed before another is tried, and has nobody wait for it.
func TestSubscriptionThatTakesNoChannelIsClosed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := must(t, f.client(t).Mutex("k"))
		var open atomic.Int32
		c, err := New(driver.NewConnector(f.Driver(), func(ctx context.Context) (driver.Conn, error) {
			conn, err := f.Connect(ctx)
			return channelless{conn.(*fakeConn), &open}, err
		}))
		require.NoError(t, err)
		defer c.Close()
		unlocked := make(chan error, 1) // it is waited for: the lock may be had before Unlock is answered
		time.AfterFunc(10*resubscribePause, func() {
			assert.Zero(t, open.Load())
			unlocked <- held.Unlock(t.Context())
		})
		_, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-unlocked)
	})
}

// What is no message of this library's wakes nobody, and grants nothing.
func TestMessagesOfAnUnknownFormTellNothing(t *testing.T) {
	for _, payload := range []string{"", "odd", "gl1|x|r", "gl1|g|r", "gl1|g|r|1", "gl1|g|r|1|odd", "gl1|g|r|1|2|3", "r|1|2", "gl2|g|r|1|2"} {
		_, w, ok := parseMessage(payload)
		assert.False(t, ok && w != wakeUp{}, "%q", payload)
	}
}

// Nothing stays of the locks that have been waited for.
func TestLocksThatNobodyWaitsForAnyMoreAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		must(t, f.client(t).Mutex("k"))
		wanted := func() map[string]int {
			synctest.Wait()
			c.hub.mu.Lock()
			defer c.hub.mu.Unlock()
			return maps.Clone(c.hub.wanted)
		}
		m := c.Mutex("k", NoRenewal()) // each waits for itself
		first, second := lockEnds(within(t, time.Second), m), lockEnds(within(t, 2*time.Second), m)
		assert.Equal(t, map[string]int{"k": 2}, wanted())
		require.ErrorIs(t, <-first, ErrLocked)
		assert.Equal(t, map[string]int{"k": 1}, wanted())
		require.ErrorIs(t, <-second, ErrLocked)
		assert.Empty(t, wanted())
	})
}

// A grant that came before a request is kept with its token, and nothing else is.
func TestAGrantThatCameBeforeARequestIsKeptWhole(t *testing.T) {
	h := newHub(nil)
	defer h.stop()
	h.running = true // without a server
	s := h.join(&Mutex{}, time.Now())
	h.wake(s.reservation, wakeUp{seq: "1", token: 7, look: true, hint: true})
	h.refresh(s)
	assert.Equal(t, wakeUp{seq: "1", token: 7}, <-s.woken)
	h.wake(s.reservation, wakeUp{look: true})
	h.refresh(s)
	assert.Empty(t, s.woken)
}

// Who has an owner, and is granted the lock by a message, can re-enter it.
func TestALockThatWasWaitedForIsReentered(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		owner := NewOwner()
		m := f.client(t).Mutex("k", Reentrant(), As(owner))
		first := must(t, f.client(t).Mutex("k", Reentrant()))
		next := background(t, m)
		require.NoError(t, first.Unlock(t.Context()))
		lease := granted(next)
		require.NotNil(t, lease)
		assert.Equal(t, owner, lease.Owner())
		time.Sleep(10 * time.Second) // it is renewed, for all of its TTL
		assert.Same(t, lease.tenure, must(t, m).tenure)
	})
}
