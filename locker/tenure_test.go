package locker

import (
	"cmp"
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// silence makes the server hang from now on.
func silence(f *fakeDeployment) {
	f.set(func() {
		f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
	})
}

func TestReentryByARenewedLeaseRenews(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, TTL(10*time.Second), NoRenewal())
		d := outer.Deadline()
		time.Sleep(4 * time.Second) // longer than a renewal would have waited
		inner := mustReenter(t, c, TTL(9*time.Second))

		<-outer.Context().Done()
		assert.Equal(t, d, time.Now(), "every hold has its own deadline")
		assert.ErrorIs(t, context.Cause(outer.Context()), ErrLost)
		require.NoError(t, outer.Unlock(t.Context()), "the other holds on")
		time.Sleep(time.Minute)
		assert.True(t, inner.Valid())
		require.NoError(t, inner.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

func TestRenewalAsksForTheLongestTTL(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		short := owned(t, c, TTL(10*time.Second))
		long := mustReenter(t, c, TTL(15*time.Second))
		time.Sleep(4 * time.Second) // one renewal
		assert.Greater(t, f.TTL("k"), 10*time.Second)
		assert.Greater(t, time.Until(short.Deadline()), 10*time.Second)
		require.NoError(t, long.Unlock(t.Context()))
		time.Sleep(time.Minute)
		assert.LessOrEqual(t, f.TTL("k"), 10*time.Second, "no longer")
		assert.True(t, short.Valid())
	})
}

func TestReentryThatIsNotRenewedEndsAlone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c)
		begun := time.Now()
		inner := mustReenter(t, c, TTL(2*time.Second), NoRenewal())
		end := begun.Add(2*time.Second - margin(2*time.Second))
		assert.Equal(t, end, inner.Deadline())
		<-inner.Context().Done()
		assert.Equal(t, end, time.Now())
		assert.ErrorIs(t, context.Cause(inner.Context()), ErrLost)
		assert.Zero(t, inner.Deadline())
		f.reset()
		assert.NoError(t, inner.Unlock(t.Context()), "the other holds on")
		assert.Empty(t, f.commands())
		time.Sleep(time.Minute)
		assert.True(t, outer.Valid())
	})
}

func TestRenewalEndsWithTheLastThatWantsIt(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, TTL(30*time.Second))
		inner := mustReenter(t, c, TTL(20*time.Second), NoRenewal())
		require.NoError(t, outer.Unlock(t.Context()))
		f.reset()
		<-inner.Context().Done()
		assert.Empty(t, f.commands())
		time.Sleep(15 * time.Second)
		assert.False(t, f.Exists("k"))
		assert.Zero(t, reenterable(c))
		assert.ErrorIs(t, inner.Unlock(t.Context()), ErrAbsent)
		assert.ErrorIs(t, outer.Unlock(t.Context()), ErrAbsent, "the outcome of all")
	})
}

// The renewal was asked for when the last lease that wanted one was unlocked.
func TestRenewalGoesOnAfterOneThatWasNotWanted(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		first := owned(t, c, TTL(10*time.Second))
		mustReenter(t, c, TTL(9*time.Second), NoRenewal())
		first.tenure.mu.Lock()
		first.tenure.renewAt = 0 // as due leaves it
		first.tenure.mu.Unlock()
		require.NoError(t, first.Unlock(t.Context()))
		_, ok := first.tenure.begin(now(), time.Second)
		require.False(t, ok)
		last := mustReenter(t, c, TTL(10*time.Second))
		time.Sleep(time.Minute)
		assert.True(t, last.Valid())
	})
}

func TestMaxHoldOfAReentryCountsFromThere(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, TTL(3*time.Second))
		time.Sleep(10500 * time.Millisecond)
		begun := time.Now()
		inner := mustReenter(t, c, TTL(3*time.Second), MaxHold(100*time.Millisecond))
		assert.Equal(t, begun.Add(100*time.Millisecond), inner.Deadline())
		<-inner.Context().Done()
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		assert.ErrorIs(t, context.Cause(inner.Context()), ErrMaxHold)
		time.Sleep(time.Minute)
		assert.True(t, outer.Valid())
		require.NoError(t, inner.Unlock(t.Context()))
		assert.True(t, outer.Valid())
		require.NoError(t, outer.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

func TestUnlockOfTheLastThatIsHeldReleases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, MaxHold(time.Second))
		inner := mustReenter(t, c)
		time.Sleep(2 * time.Second) // outer ended, and is not unlocked
		require.NoError(t, inner.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
		assert.NoError(t, outer.Unlock(t.Context()))
	})
}

func TestUnlocksAtOneTimeEndTogether(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		f.reset()
		f.slow(100 * time.Millisecond)
		begun := time.Now()
		outcomes := make(chan error)
		for range 4 {
			go func() { outcomes <- lease.Unlock(t.Context()) }()
		}
		for range 4 {
			assert.NoError(t, <-outcomes)
		}
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
		assert.Equal(t, []string{"EVALSHA"}, f.commands(), "one has released it for all")
	})
}

// The watchdog is late, as on a starved CPU.
func TestAnEndThatNobodyHasNoticedYet(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		expire := func(l *Lease) {
			l.tenure.mu.Lock()
			defer l.tenure.mu.Unlock()
			l.bound = &bound{limit: term{deadline: time.Now()}}
		}
		outer := owned(t, c)
		inner := mustReenter(t, c)
		expire(outer)
		require.NoError(t, inner.Unlock(t.Context()))
		assert.False(t, f.Exists("k"), "inner was the last that was held")
		assert.ErrorIs(t, outer.Err(), ErrMaxHold)

		outer = owned(t, c)
		expire(outer)
		_, ok := reenter(c)
		assert.False(t, ok)
		assert.NoError(t, outer.Unlock(t.Context()))

		outer = owned(t, c)
		expire(outer)
		_, renews := outer.tenure.begin(now(), time.Second)
		assert.False(t, renews)
		assert.NoError(t, outer.Unlock(t.Context()))

		outer = owned(t, c)
		expire(outer)
		assert.ErrorIs(t, outer.Extend(t.Context(), time.Hour), ErrMaxHold)
		assert.LessOrEqual(t, f.TTL("k"), DefaultTTL, "others wait for no lease that is over")
		assert.NoError(t, outer.Unlock(t.Context()))
	})
}

func TestLossIsOfAllAtOnce(t *testing.T) {
	loss := map[string]func(*fakeDeployment){
		"deadline": silence,
		"taken":    func(f *fakeDeployment) { _ = f.Set("k", "somebody") },
		"absent":   func(f *fakeDeployment) { f.Del("k") },
	}
	for name, lose := range loss {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				held := []*Lease{owned(t, c), mustReenter(t, c), mustReenter(t, c)}
				contexts := []context.Context{held[0].Context(), held[1].Context()}
				lose(f)
				<-contexts[0].Done()
				synctest.Wait()
				cause := context.Cause(contexts[0])
				assert.ErrorIs(t, cause, ErrLost)
				assert.Same(t, cause, context.Cause(contexts[1]))
				assert.Same(t, cause, held[2].Err(), "whether or not its context was asked for")
				assert.Zero(t, reenterable(c))
				_, ok := held[0].tenure.join(held[0].mutex)
				assert.False(t, ok)
				f.set(func() { f.before = nil })
				time.Sleep(time.Minute)
				f.reset()
				var outcome error
				for _, l := range held {
					err := l.Unlock(t.Context())
					assert.ErrorIs(t, err, ErrNotHeld)
					if outcome != nil {
						assert.Equal(t, outcome, err)
					}
					outcome = err
				}
				if name != "deadline" {
					assert.Empty(t, f.commands(), "the server has said it already")
				}
			})
		})
	}
}

func TestUnlockOfAReenteredLockWhoseReleaseIsUnknown(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c)
		inner := mustReenter(t, c)
		silence(f)
		require.NoError(t, inner.Unlock(t.Context()))
		assert.ErrorIs(t, outer.Unlock(t.Context()), ErrUnknown)
		assert.ErrorIs(t, inner.Unlock(t.Context()), ErrUnknown, "asks once more")
		_, ok := outer.tenure.join(outer.mutex)
		assert.False(t, ok, "its release has begun")
		assert.Zero(t, reenterable(c))
		f.set(func() { f.before = nil })
		time.Sleep(10 * time.Second)
		assert.False(t, f.Exists("k"), "the cleanup")
		assert.NoError(t, inner.Unlock(t.Context()))
		assert.NoError(t, outer.Unlock(t.Context()))
	})
}

func TestExtendOfAReentry(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c, TTL(30*time.Second))
		inner := mustReenter(t, c, TTL(5*time.Second), NoRenewal())
		other := mustReenter(t, c, TTL(5*time.Second), NoRenewal())
		ends := other.Deadline()
		begun := time.Now()
		require.NoError(t, inner.Extend(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, f.TTL("k"))
		want := begun.Add(time.Minute - margin(time.Minute))
		assert.Equal(t, want, inner.Deadline())
		assert.Equal(t, want, outer.Deadline())
		assert.Equal(t, ends, other.Deadline(), "its own")
		require.NoError(t, inner.Extend(t.Context(), time.Second))
		assert.Equal(t, want, inner.Deadline(), "never shortens")
		<-inner.Context().Done()
		assert.Equal(t, want, time.Now())
		assert.ErrorIs(t, other.Extend(t.Context(), time.Minute), ErrLost)
		assert.True(t, outer.Valid())
	})
}

// The re-entry comes while Detach lengthens the lease.
func TestDetachRacesReentry(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NamedOwner("me")))
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		var inner *Lease
		f.set(func() {
			f.after = func(ctx context.Context, cmd driver.Command) error {
				if inner == nil && cmd.Args[1] == holdFamily.renew.sha() {
					inner, err = m.Lock(ctx)
				}
				return err
			}
		})
		id, err := outer.Detach(t.Context(), time.Hour)
		require.NoError(t, err)
		assert.False(t, outer.Valid())
		assert.True(t, inner.Valid())
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(t.Context()))
		assert.True(t, f.Exists("k"))
		require.NoError(t, taken.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

func TestCloseReleasesATenureOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		outer := owned(t, c)
		inner := mustReenter(t, c)
		f.reset()
		require.NoError(t, c.Close())
		assert.Equal(t, []string{"EVALSHA"}, f.commands())
		assert.False(t, f.Exists("k"))
		for _, l := range []*Lease{outer, inner} {
			assert.ErrorIs(t, context.Cause(l.Context()), ErrLost)
			assert.ErrorIs(t, context.Cause(l.Context()), ErrClosed)
			assert.NoError(t, l.Unlock(t.Context()), "Close released it")
		}
		assert.Zero(t, reenterable(c))
	})
}

// A grant for less than the TTL is lengthened by the first renewal.
func TestShortGrant(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k", TTL(30*time.Second))
		id := newID()
		require.NoError(t, f.Set("k", record(id, millis(2*time.Second), "me|")))
		f.SetTTL("k", 2*time.Second)
		begun := now()
		l := newLease(m, grant{id: id, sent: begun, ttl: 2 * time.Second})
		require.True(t, l.tenure.watch(false))
		assert.Equal(t, begun.at.Add(2*time.Second-margin(2*time.Second)), l.Deadline())
		time.Sleep(700 * time.Millisecond)
		assert.Greater(t, f.TTL("k"), 29*time.Second)
		time.Sleep(time.Minute)
		assert.True(t, l.Valid())
		assert.NoError(t, l.Unlock(t.Context()))
	})
}

// The lock goes on to who waits in the request whose reply is lost. That is no
// failure of Unlock.
func TestUnlockWhoseReplyIsLostHandsTheLockOn(t *testing.T) {
	for name, mode := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", mode...)
				lease, err := m.Lock(t.Context())
				require.NoError(t, err)
				waiting := background(t, f.client(t).Mutex("k", mode...))
				f.set(func() { f.after = once("EVALSHA", errLostReply) })
				require.NoError(t, lease.Unlock(t.Context()))
				next := granted(waiting)
				require.NotNil(t, next)
				assert.True(t, next.Valid())
				require.NoError(t, next.Unlock(t.Context()))
			})
		})
	}
}

// A driver that panics takes its caller down, and leaves the lock to the others all the same.
func TestPanicOfARelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		next := background(t, m)
		time.Sleep(time.Second) // too long for the lock to be passed on
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Args[1] != mutexFamily.release.sha() {
					return nil
				}
				f.set(func() { f.before = nil })
				panic("in the driver")
			}
		})
		assert.Panics(t, func() { held.Unlock(t.Context()) })
		lease := granted(next)
		require.NotNil(t, lease)
		assert.NoError(t, held.Unlock(t.Context()), "again")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A failover takes a while, in which the lease that was given up in time would have run out. It was
// not lost by that.
func TestUnlockInTimeWhoseReplyIsLostIsNoLossHoweverLateTheNextAnswerIs(t *testing.T) {
	for name, mode := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting()}} {
		for how, giveUp := range map[string]func(*Client, *Lease) error{
			"Unlock": func(_ *Client, l *Lease) error { return l.Unlock(context.Background()) },
			"Close":  func(c *Client, l *Lease) error { return cmp.Or(c.Close(), l.Unlock(context.Background())) },
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					c := f.client(t)
					lease, err := c.Mutex("k", append(mode, TTL(2*time.Second))...).Lock(t.Context())
					require.NoError(t, err)
					waiting := background(t, f.client(t).Mutex("k", mode...))
					healed := time.Now().Add(2500 * time.Millisecond)
					f.set(func() {
						var away atomic.Bool
						f.after = func(context.Context, driver.Command) error {
							if away.CompareAndSwap(false, true) {
								return errLostReply
							}
							return nil
						}
						f.before = func(context.Context, driver.Command) error {
							if away.Load() && time.Now().Before(healed) {
								return errLostReply
							}
							return nil
						}
					})
					require.NoError(t, giveUp(c, lease))
					assert.False(t, time.Now().Before(healed))
					next := granted(waiting)
					require.NotNil(t, next)
					require.NoError(t, next.Unlock(t.Context()))
				})
			})
		}
	}
}

// Between the end of the lease here and that at the server a release whose reply is lost has still released it.
func TestUnlockInTheMarginWhoseReplyIsLostHasReleased(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k", TTL(2*time.Second), NoRenewal()))
		<-lease.Context().Done()
		require.True(t, f.Exists("k"))
		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		assert.NoError(t, lease.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

// Once the lease may have run out, nobody knows whether it was released or lost.
func TestUnlockUnansweredUntilTheLeaseIsOverIsNotSaidToHaveReleased(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(2*time.Second), NoRenewal())
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() == "EVALSHA" {
					return errLostReply
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, lease.Unlock(ctx), ErrUnknown)
		time.Sleep(2 * time.Second)
		_, err = m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = nil })
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrTaken)
	})
}

// A release that was asked for when the lease had run out, and not answered, has released nothing.
func TestUnlockUnansweredAfterTheLeaseIsOverIsNotSaidToHaveReleased(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(2*time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * time.Second)
		f.set(func() { f.before = func(context.Context, driver.Command) error { return errLostReply } })
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		f.heal()
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
	})
}

// The server has lengthened the lease until long after its end here, which nobody has heard. For
// as long it is released in the background.
func TestReleaseGoesOnForAsLongAsARenewalThatWasNotAnsweredMayLast(t *testing.T) {
	const ttl = time.Minute
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(ttl)).Lock(t.Context())
		require.NoError(t, err)
		lapse := time.Now().Add(ttl)
		f.set(func() { f.after = func(context.Context, driver.Command) error { return errLostReply } })
		<-lease.Context().Done()
		time.Sleep(time.Until(lapse))
		require.Greater(t, f.TTL("k"), ttl/2)
		f.set(func() { f.before = f.after })
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		f.heal()
		time.Sleep(cleanupPause)
		assert.False(t, f.Exists("k"), "%v left", f.TTL("k"))
	})
}

// Close does not release what an Unlock is about to: that would find nothing, and say so.
func TestCloseLeavesTheReleaseToAnUnlockInProgress(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		answer, unlocked := make(chan struct{}), make(chan error, 1)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				<-answer
				return nil
			}
		})
		go func() { unlocked <- lease.Unlock(t.Context()) }()
		synctest.Wait()
		_, _, ok := lease.tenure.startClose()
		assert.False(t, ok)
		close(answer)
		assert.NoError(t, <-unlocked)
	})
}
