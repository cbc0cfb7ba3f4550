package locker

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestSuspensionEndsATerm(t *testing.T) {
	term := newTerm(now(), time.Minute)
	assert.InDelta(t, time.Minute-margin(time.Minute), term.leftAt(exactNow()), float64(time.Second))
	assert.Less(t, term.leftAt(moment{time.Now(), suspended.now() + 2*time.Minute}), time.Duration(0),
		"the machine slept two minutes, of which the monotonic clock knows nothing")
}

func TestUptimeRunsWithTheClock(t *testing.T) {
	if _, ok := uptime(); !ok {
		assert.NotEqual(t, "linux", runtime.GOOS)
		return
	}
	first := suspended.now()
	for range 1000 {
		assert.InDelta(t, first, suspended.now(), float64(suspendedNoise/2))
	}
}

// Between the readings of the two clocks a process may be without a processor for long,
// which is no suspension: its leases would seem to be over early.
func TestAStallBetweenTheClocksIsNoSuspension(t *testing.T) {
	begun, readings := time.Now(), 0
	clock := &suspendClock{start: begun, wall: wall, uptime: func() (time.Duration, bool) {
		if readings++; readings%2 == 0 {
			<-time.After(2 * suspendedNoise)
		}
		return time.Since(begun), true
	}}
	for range 3 {
		assert.InDelta(t, 0, clock.now(), float64(suspendedNoise/2))
	}
}

func TestSuspensionIsNotSeenInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		assert.True(t, bubbled(time.Now()))
		before := suspended.recent(time.Now())
		time.Sleep(time.Hour)
		assert.Equal(t, before, suspended.now())
	})
}

// The clock of a machine may be ahead until it has asked others for the time.
func TestSuspensionIsSeenAfterTheWallClockWasPutRight(t *testing.T) {
	right := time.Now()
	begun, slept := right.Add(48*time.Hour), time.Duration(0)
	clock := &suspendClock{start: begun, wall: wall, uptime: func() (time.Duration, bool) {
		return time.Since(right) + slept, true
	}}
	assert.Zero(t, clock.now())
	slept = time.Hour
	assert.InDelta(t, time.Hour, clock.now(), float64(suspendedNoise))
	assert.False(t, bubbled(time.Now()))
}

// A laptop is a bubble's machine that can be suspended: its monotonic clock stands still then, and its
// wall clock, its uptime and the server go on.
type laptop struct {
	server *fakeDeployment

	mu   sync.Mutex
	naps []nap
}

type nap struct {
	at     time.Time
	length time.Duration
}

func newLaptop(t *testing.T, server *fakeDeployment) *laptop {
	l, before, begun := &laptop{server: server}, suspended, time.Now()
	suspended = &suspendClock{start: begun,
		wall:   func(t time.Time) time.Time { return t.Round(0).Add(l.asleep(t)) },
		uptime: func() (time.Duration, bool) { return time.Since(begun) + l.asleep(time.Now()), true },
	}
	suspended.now()
	t.Cleanup(func() { suspended = before })
	return l
}

// asleep is how long the machine had been suspended by then.
func (l *laptop) asleep(then time.Time) (total time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range l.naps {
		if n.at.Before(then) {
			total += n.length
		}
	}
	return total
}

// suspend takes two milliseconds of the monotonic clock.
func (l *laptop) suspend(d time.Duration) {
	time.Sleep(time.Millisecond)
	l.mu.Lock()
	l.naps = append(l.naps, nap{time.Now(), d})
	l.mu.Unlock()
	l.server.FastForward(d)
	time.Sleep(time.Millisecond)
}

// What was known of the machine's suspensions is no older than a moment by the monotonic clock.
func TestALeaseTakenRightAfterASuspensionIsNotLost(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		mustPair(t, c.Mutex("other")) // looks at the clocks
		machine.suspend(10 * time.Minute)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.True(t, lease.Valid(), "%v; the server has it for %v", lease.Err(), f.TTL("k"))
		time.Sleep(time.Minute)
		assert.NoError(t, context.Cause(lease.Context()))
	})
}

func TestARenewalRightAfterASuspensionCounts(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		lease, err := c.Mutex("k", TTL(time.Minute)).Lock(t.Context())
		require.NoError(t, err)
		lease.tenure.mu.Lock()
		renewAt := lease.tenure.renewAt.time()
		lease.tenure.mu.Unlock()
		time.Sleep(time.Until(renewAt) - 500*time.Millisecond)
		mustPair(t, c.Mutex("other")) // looks at the clocks
		machine.suspend(20 * time.Second)
		time.Sleep(18 * time.Second) // the renewal is half a second after the suspension
		assert.True(t, lease.Valid(), "%v; the server has it for %v", lease.Err(), f.TTL("k"))
		assert.Greater(t, lease.tenure.term.leftAt(exactNow()), 30*time.Second)
	})
}

func TestDeadlinesAfterASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		lease, err := c.Mutex("k", TTL(time.Hour), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		machine.suspend(50 * time.Minute)
		left := f.TTL("k") - margin(time.Hour)
		snapshot := c.Snapshot().Leases[0]
		for _, deadline := range []time.Time{lease.Deadline(), snapshot.Deadline} {
			assert.InDelta(t, left, time.Until(deadline), float64(time.Second))
		}
		require.NoError(t, lease.Extend(t.Context(), 2*time.Hour))
		assert.InDelta(t, 2*time.Hour-margin(2*time.Hour), time.Until(lease.Deadline()), float64(time.Second))
	})
}

// The server counts from when it was asked, wherever the answer was in the meantime.
func TestALeaseThatWasOnItsWayInASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		for name, opts := range map[string][]Option{"renewed": nil, "not renewed": {NoRenewal()}} {
			f.set(func() {
				f.after = func(context.Context, driver.Command) error {
					f.set(func() { f.after = nil })
					machine.suspend(20 * time.Second)
					return nil
				}
			})
			lease, err := c.Mutex(name, append(opts, TTL(time.Minute))...).Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // a renewal that the server has executed has told the lease, too
			assert.InDelta(t, f.TTL(name)-margin(time.Minute), time.Until(lease.Deadline()), float64(time.Second))
			time.Sleep(time.Second)
			assert.Equal(t, opts == nil, f.TTL(name) > 50*time.Second, "a third of the TTL had passed: it is renewed")
		}
	})
}

// However long the machine was suspended, unless that is longer than the lease.
func TestContextEndsBeforeTheNextGrantAfterASuspension(t *testing.T) {
	withoutRaceDetector(t)
	for name, c := range map[string]struct {
		ttl, nap time.Duration
		opts     []Option
	}{
		"not renewed":                  {time.Hour, 50 * time.Minute, []Option{NoRenewal()}},
		"not renewed, nearly over":     {time.Hour, time.Hour - margin(time.Hour) - time.Minute - time.Second, []Option{NoRenewal()}},
		"a TTL as short as is in time": {20 * time.Second, 20*time.Second - margin(20*time.Second) - time.Second, []Option{NoRenewal()}},
		"renewed in vain":              {time.Minute, 40 * time.Second, nil},
		"renewed in vain, nearly over": {DefaultTTL, 27 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				machine := newLaptop(t, f)
				cut := &fakeDeployment{Miniredis: f.Miniredis, dial: f.dial}
				lease, err := cut.client(t).Mutex("k", append(c.opts, TTL(c.ttl))...).Lock(t.Context())
				require.NoError(t, err)
				ctx := lease.Context()
				time.Sleep(min(c.ttl/30, time.Minute))
				cut.set(func() {
					cut.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
				})
				machine.suspend(c.nap)
				assert.NoError(t, ctx.Err())
				_, err = f.client(t).Mutex("k").Lock(t.Context())
				require.NoError(t, err)
				assert.ErrorIs(t, context.Cause(ctx), ErrLost, "another holds the lock")
			})
		})
	}
}

func TestLeasesAreRenewedAtOnceAfterASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		brief, err := c.Mutex("brief", TTL(5*time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		machine.suspend(20 * time.Second)
		time.Sleep(time.Second)
		assert.Greater(t, f.TTL("k"), DefaultTTL-2*time.Second)
		assert.ErrorIs(t, context.Cause(brief.Context()), ErrLost)
		time.Sleep(time.Minute)
		assert.True(t, lease.Valid())
		f.reset()
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, len(f.commands()), 7, "renewals are as rare as before")
	})
}

// Who has seen a suspension by Valid need not wait until the watchdog sees it, too.
func TestValidMovesTheEndOfTheContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		lease, err := c.Mutex("k", TTL(5*time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		left := 5*time.Second - margin(5*time.Second) - 100*time.Millisecond
		machine.suspend(left)
		require.True(t, lease.Valid())
		ctx := lease.Context()
		time.Sleep(100 * time.Millisecond)
		assert.ErrorIs(t, ctx.Err(), context.Canceled)
	})
}

// It looks for suspensions only while there is something to watch.
func TestTheWatchdogSleepsWhereNothingIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		newLaptop(t, f)
		c := f.client(t)
		next := func() time.Duration {
			synctest.Wait()
			c.watchdog.mu.Lock()
			defer c.watchdog.mu.Unlock()
			return c.watchdog.wakeAt - time.Since(c.watchdog.epoch.at)
		}
		mustPair(t, c.Mutex("k", TTL(12*time.Hour)))
		time.Sleep(time.Second)
		assert.Greater(t, next(), 365*24*time.Hour)
		lease, err := c.Mutex("k", TTL(12*time.Hour)).Lock(t.Context())
		require.NoError(t, err)
		for range 3 {
			assert.Equal(t, time.Second, next())
			time.Sleep(time.Second)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		assert.Greater(t, next(), 365*24*time.Hour)
	})
}

// A watchdog of a test's bubble would wake each second of its time, once the process has had a lock outside.
func TestNoSuspensionIsLookedForInABubble(t *testing.T) {
	suspended.now()
	synctest.Test(t, func(t *testing.T) {
		assert.Equal(t, idleWake, suspended.unnoticed())
	})
}

// The wall clock only says that it is time to look.
func TestAWallClockThatIsSetIsNoSuspension(t *testing.T) {
	begun, step := time.Now(), time.Duration(0)
	clock := &suspendClock{start: begun,
		wall:   func(t time.Time) time.Time { return t.Round(0).Add(step) },
		uptime: func() (time.Duration, bool) { return time.Since(begun), true },
	}
	clock.now()
	for _, step = range []time.Duration{time.Hour, -time.Hour} {
		assert.InDelta(t, 0, clock.recent(time.Now()), float64(suspendedNoise))
	}
}

// A maximum hold is over by the time that others have waited, which goes while the machine sleeps.
func TestMaxHoldIsReachedWhileTheMachineSleeps(t *testing.T) {
	for name, opts := range map[string][]Option{"renewed": nil, "not renewed": {NoRenewal()}, "with an owner": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				machine, c := newLaptop(t, f), f.client(t)
				lease := must(t, c.Mutex("k", append(opts, TTL(24*time.Hour), MaxHold(2*time.Hour))...))
				begun := time.Now()
				ctx := lease.Context()
				machine.suspend(time.Hour)
				assert.True(t, lease.Valid())
				assert.WithinDuration(t, begun.Add(time.Hour), lease.Deadline(), time.Second)
				machine.suspend(2 * time.Hour)
				assert.ErrorIs(t, lease.Err(), ErrMaxHold, "at the call")
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), ErrMaxHold)
			})
		})
	}
}

func TestMaxHoldIsNotedWithinASecondOfTheResume(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		ctx := must(t, c.Mutex("k", TTL(24*time.Hour), MaxHold(2*time.Hour))).Context()
		synctest.Wait()
		machine.suspend(3 * time.Hour)
		resumed := time.Now()
		<-ctx.Done()
		assert.ErrorIs(t, context.Cause(ctx), ErrMaxHold)
		assert.LessOrEqual(t, time.Since(resumed), time.Second)
	})
}

// Who gives the watchdog a time may have had no processor since it was right: the machine was suspended, and the watchdog
// has found out.
func TestContextEndsInTimeHoweverLateTheWatchdogIsTold(t *testing.T) {
	for name, test := range map[string]struct {
		opts []Option
		tell func(t *tenure, taken, answered moment)
	}{
		"of a lease":   {[]Option{NoRenewal()}, func(t *tenure, _, _ moment) { t.watch(false) }},
		"of a renewal": {nil, func(t *tenure, taken, answered moment) { t.reply(taken, answered, int64(1), nil) }},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				machine, c := newLaptop(t, f), f.client(t)
				must(t, c.Mutex("other", TTL(time.Hour))) // so that the watchdog looks at the clocks
				m, taken := c.Mutex("k", append(test.opts, TTL(time.Minute))...), now()
				lease := newLease(m, grant{id: newID(), sent: taken, ttl: m.ttl})
				ctx, answered := lease.Context(), now()
				if _, renews := lease.tenure.begin(answered, time.Second); renews {
					lease.tenure.renewAt = 0
					require.True(t, lease.tenure.watch(false))
				}
				f.set(func() {
					f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
				})
				machine.suspend(40 * time.Second)
				time.Sleep(time.Second)
				require.NoError(t, ctx.Err())
				test.tell(lease.tenure, taken, answered)
				time.Sleep(19*time.Second - margin(time.Minute))
				synctest.Wait()
				assert.ErrorIs(t, context.Cause(ctx), ErrLost)
			})
		})
	}
}

// What was armed before a suspension has lapsed in it. A release that is asked for after that, and not answered, has
// released nothing; nor is it so much of the lease that is left to others.
func TestUnlockUnansweredAfterTheLeaseWasOverInASuspensionIsNotSaidToHaveReleased(t *testing.T) {
	lost := func(context.Context, driver.Command) error { return errLostReply }
	t.Run("before it", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			machine, lease := newLaptop(t, f), must(t, f.client(t).Mutex("k"))
			machine.suspend(2 * DefaultTTL)
			f.set(func() { f.before = lost })
			assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
			f.heal()
			assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
		})
	})
	t.Run("while a renewal hangs", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			machine, lease := newLaptop(t, f), must(t, f.client(t).Mutex("k"))
			f.set(func() {
				f.before = func(ctx context.Context, _ driver.Command) error {
					f.set(func() { f.before = lost })
					machine.suspend(10 * DefaultTTL)
					<-ctx.Done()
					return errLostReply
				}
			})
			<-lease.Context().Done()
			assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
			f.heal()
			assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
		})
	})
	for name, times := range map[string]int{"while it is tried": math.MaxInt, "between two tries": 1} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				machine, lease := newLaptop(t, f), must(t, f.client(t).Mutex("k"))
				f.set(func() {
					tries := 0
					f.before = func(context.Context, driver.Command) error {
						switch tries++; {
						case tries == 1:
							machine.suspend(2 * DefaultTTL)
							return driver.NotSent(errors.New("no route"))
						case tries-1 <= times:
							return errLostReply
						}
						return nil
					}
				})
				if err := lease.Unlock(t.Context()); times > 1 {
					require.ErrorIs(t, err, ErrUnknown)
					f.heal()
				} else {
					require.ErrorIs(t, err, ErrAbsent)
				}
				assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
			})
		})
	}
}

// A renewal that was on its way in a suspension is executed after it, when the lease is over here, and not yet there.
func TestUnlockAfterARenewalThatASuspensionHasHeldUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, lease := newLaptop(t, f), must(t, f.client(t).Mutex("k", TTL(time.Hour)))
		once := func(context.Context, driver.Command) error {
			f.set(func() { f.after = nil })
			return errLostReply
		}
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				f.set(func() { f.before = nil })
				machine.suspend(time.Until(lease.Deadline()) + margin(time.Hour)/2)
				return nil
			}
			f.after = once
		})
		<-lease.Context().Done()
		left := f.TTL("k")
		require.Greater(t, left, time.Hour-time.Minute)
		time.Sleep(left - time.Minute)
		f.set(func() { f.after = once })
		assert.NoError(t, lease.Unlock(t.Context()), "the first request has released it")
	})
}

// So is an Extend.
func TestUnlockAfterAnExtendThatASuspensionHasHeldUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, lease := newLaptop(t, f), must(t, f.client(t).Mutex("k", NoRenewal(), TTL(time.Hour), AttemptTimeout(time.Second)))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				f.set(func() { f.before = nil })
				machine.suspend(time.Until(lease.Deadline()) - time.Minute)
				return nil
			}
			f.after = func(ctx context.Context, _ driver.Command) error {
				f.set(func() { f.after = once("EVALSHA", errLostReply) })
				<-ctx.Done()
				return errLostReply
			}
		})
		ctx := within(t, time.Second)
		require.ErrorIs(t, lease.Extend(ctx, time.Hour), ErrUnknown)
		left := f.TTL("k")
		require.Greater(t, left, time.Hour-time.Minute)
		time.Sleep(left - time.Minute)
		assert.NoError(t, lease.Unlock(t.Context()), "the first request has released it")
	})
}

// Who waits for a lease of the same client is told how much of it the server has left.
func TestWhatIsLeftToOthersAfterASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine, c := newLaptop(t, f), f.client(t)
		m := c.Mutex("k", TTL(time.Hour))
		require.NotNil(t, granted(background(t, m)))
		machine.suspend(50 * time.Minute)
		left := f.TTL("k")
		_, err := m.Lock(within(t, time.Millisecond))
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, err)
		assert.InDelta(t, left, locked.Holder.Remaining, float64(10*time.Second))
	})
}

func BenchmarkSuspendedNow(b *testing.B) {
	for b.Loop() {
		suspended.now()
	}
}

func BenchmarkSuspendedRecent(b *testing.B) {
	for b.Loop() {
		suspended.recent(time.Now())
	}
}

// A lease that was lost in a suspension, before anybody has noticed, is not taken for one that its holder has
// given up in time.
func TestUnlockTellsOfALeaseThatWasLostInASuspension(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		machine := newLaptop(t, f)
		lease := must(t, f.client(t).Mutex("k", TTL(time.Minute)))
		machine.suspend(2 * time.Minute)
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
		assert.ErrorIs(t, lease.Err(), ErrLost)
	})
}
