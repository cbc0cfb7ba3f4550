package locker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// Between the lease that was lost and the one that follows others may have changed all that it
// protects, although the new one has the newest token: who changes its lease must be told.
func TestLeaseThatWasLostUnnoticedIsNotChangedIntoAnother(t *testing.T) {
	for name, test := range map[string]struct {
		opts   []Option
		change func(t *testing.T, l *Lease) error
	}{
		"downgrade": {[]Option{ForWriting(), Fenced()}, func(t *testing.T, l *Lease) error {
			_, err := l.Downgrade(t.Context())
			return err
		}},
		"downgrade of a lease that was re-entered": {[]Option{ForWriting()}, func(t *testing.T, l *Lease) error {
			must(t, l.mutex)
			_, err := l.Downgrade(t.Context())
			return err
		}},
		"upgrade": {[]Option{ForReading(), Fenced()}, func(t *testing.T, l *Lease) error {
			_, err := l.Upgrade(t.Context())
			return err
		}},
		"try to upgrade": {[]Option{ForReading()}, func(t *testing.T, l *Lease) error {
			_, err := l.TryUpgrade(t.Context())
			return err
		}},
		"detach": {[]Option{Reentrant()}, func(t *testing.T, l *Lease) error {
			_, err := l.Detach(t.Context(), time.Minute)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", append(test.opts, As(NewOwner()))...)
				lease := must(t, m)
				if m.mode == modeReentrant {
					must(t, m) // so that it is detached by itself
				}
				f.Del("k")
				require.NoError(t, must(t, f.client(t).Mutex("k", test.opts...)).Unlock(t.Context()), "another one has been there")

				assert.ErrorIs(t, test.change(t, lease), ErrLost)
				assert.False(t, lease.Valid())
				assert.False(t, f.Exists("k"), "nobody holds it")
			})
		})
	}
}

// Nobody else can have the lock while a writer does. So who is told by a downgrade that somebody does
// has lost it, and must not go on to write until the next renewal.
func TestDowngradeOfALeaseThatOthersHaveNowTellsOfTheLoss(t *testing.T) {
	for name, theirs := range map[string][]Option{"a writer": {ForWriting()}, "a mutex": nil} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				var ends []LockEnd
				c := f.client(t, Observe(Observer{LockEnd: func(_ context.Context, e LockEnd) { ends = append(ends, e) }}))
				writing := must(t, c.Mutex("k", ForWriting()))
				f.Del("k")
				other := must(t, f.client(t).Mutex("k", theirs...))
				_, err := writing.Downgrade(t.Context())
				assert.ErrorIs(t, err, ErrLost)
				assert.False(t, writing.Valid())
				assert.Equal(t, "absent", ends[len(ends)-1].Outcome())
				assert.NoError(t, other.Unlock(t.Context()))
			})
		})
	}
}

// Where only the release finds that out, what was taken is given up, which does not keep the caller longer
// than its ctx says.
func TestDowngradeOfALeaseThatWasLostEndsWithItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Minute)))
		f.Del("k")
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.release.runs(cmd) {
					f.hang()
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		_, err := writing.Downgrade(ctx)
		assert.Equal(t, time.Second, time.Since(begun))
		lost, ok := errors.AsType[*LostError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, ErrAbsent, lost.Reason, "the server has said so")
		assert.ErrorIs(t, err, ErrUnknown, "what it has taken may be held still")
		f.heal()
		time.Sleep(20 * time.Second) // it is given up in the background
		must(t, f.client(t).Mutex("k", ForWriting()))
	})
}

// The same is so of a lease that was re-entered, and is to be detached by itself.
func TestDetachOfALeaseThatOthersHaveNowTellsOfTheLoss(t *testing.T) {
	for name, opts := range map[string][]Option{"reentrant": {Reentrant()}, "writer": {ForWriting()}, "reader": {ForReading()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", append(opts, As(NewOwner()))...)
				lease := must(t, m)
				must(t, m)
				f.Del("k")
				other := f.client(t).Mutex("k", opts...)
				if name == "reader" {
					other = f.client(t).Mutex("k", ForWriting())
				}
				theirs := must(t, other)
				_, err := lease.Detach(t.Context(), time.Minute)
				assert.ErrorIs(t, err, ErrLost)
				assert.False(t, lease.Valid())
				assert.NoError(t, theirs.Unlock(t.Context()))
			})
		})
	}
}

// A key beside the lock is no word about the lease.
func TestDowngradeBesideAForeignKeyLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		writing := must(t, f.client(t).Mutex("k", ForWriting(), Fenced()))
		require.NoError(t, f.Set(newKeys("k").fence, "foreign"))
		_, err := writing.Downgrade(t.Context())
		assert.ErrorIs(t, err, ErrForeign)
		assert.True(t, writing.Valid())
		assert.NoError(t, writing.Unlock(t.Context()))
	})
}

// After an error that is no ErrLost the lease is as it was.
func TestDowngradeThatOutlivesItsLeaseTellsOfTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Second)))
		f.hang()
		_, err := writing.Downgrade(t.Context())
		assert.ErrorIs(t, err, ErrLost)
		assert.False(t, writing.Valid())
	})
}

// So it is where the reading lease is had after all: it has been taken behind a gap.
func TestDowngradeThatIsHadAfterItsLeaseHasRunOutTellsOfTheLoss(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = time.Second
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(ttl)))
		lapse := time.Now().Add(ttl)
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				switch {
				case holdFamily.renew.runs(cmd):
					return errLostReply
				case isAcquire(cmd):
					time.Sleep(time.Until(lapse) + time.Millisecond)
				}
				return nil
			}
		})
		time.Sleep(ttl / 2)
		_, err := writing.Downgrade(t.Context())
		assert.ErrorIs(t, err, ErrLost)
		synctest.Wait()
		assert.False(t, f.Exists("k"), "what was taken is given up")
	})
}

// A re-entry has the token of the outer lease, so that a store refuses what is written after that is
// lost. One that asks the server would have a larger one, by which a store would take it.
func TestReentryIntoALeaseThatWasLostUnnoticedIsNoNewLease(t *testing.T) {
	for name, opts := range map[string][]Option{"reentrant": {Reentrant(), Fenced()}, "writing": {ForWriting(), Fenced()}} {
		for how, take := range map[string]func(*Mutex, context.Context) (*Lease, error){"lock": (*Mutex).Lock, "try": (*Mutex).TryLock} {
			t.Run(name+", "+how, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					c := f.client(t)
					outer := must(t, c.Mutex("k", opts...))
					within := c.Mutex("k", append(opts, TTL(time.Hour))...) // more than is left of the outer one
					inner, err := take(within, outer.Context())
					require.NoError(t, err)
					require.Equal(t, outer.Token(), inner.Token())
					require.NoError(t, inner.Unlock(t.Context()))

					f.Del("k")
					require.NoError(t, must(t, f.client(t).Mutex("k", opts...)).Unlock(t.Context()), "another one has been there")
					_, err = take(within, outer.Context())
					assert.ErrorIs(t, err, ErrLost)
					assert.NotContains(t, err.Error(), "and then", "the new one was given up")
					assert.ErrorIs(t, context.Cause(outer.Context()), ErrAbsent)
					assert.ErrorIs(t, outer.Unlock(t.Context()), ErrAbsent)
					assert.False(t, f.Exists("k"), "nobody holds it")
					again := must(t, within)
					require.NoError(t, again.Unlock(t.Context()))
				})
			})
		}
	}
}

// outdated returns a lease of m's owner, and the larger token that another one has had meanwhile.
func outdated(t *testing.T, m *Mutex) (outer *Lease, larger Token) {
	outer = must(t, m)
	id, err := must(t, m).Detach(t.Context(), time.Minute)
	require.NoError(t, err)
	again, err := m.Attach(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, again.Unlock(t.Context()))
	return outer, again.Token()
}

func TestReentryIntoALeaseThatIsGivenUpMeanwhileIsANewLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		opts := []Option{Reentrant(), Fenced(), As(NewOwner())}
		outer := must(t, c.Mutex("k", opts...))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { // the request of the re-entry
				f.heal()
				return outer.Unlock(t.Context())
			}
		})
		again := must(t, c.Mutex("k", append(opts, TTL(time.Hour))...)) // more than is left of the outer one
		assert.Greater(t, again.Token(), outer.Token())
		assert.True(t, again.Valid())
		assert.Same(t, ErrReleased, outer.Err())
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) { // by the token nothing is known
		m := f.client(t).Mutex("k", Reentrant(), Fenced(), As(NewOwner()))
		outer, larger := outdated(t, m)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { // the request of the re-entry
				f.heal()
				return outer.Unlock(t.Context())
			}
		})
		again := must(t, m)
		assert.Greater(t, again.Token(), larger)
		assert.True(t, again.Valid())
	})
}

// By the token nothing is known there either: what keeps it from being asked is what Lock says.
func TestReentryThatCannotAskWhetherTheOuterLeaseIsThereHasNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), Fenced(), As(NewOwner()))
		outer, _ := outdated(t, m)
		f.set(func() { f.before = refusesScript(holdFamily.renew, driver.NewServerError("NOPERM no")) })
		_, err := m.Lock(t.Context())
		assert.ErrorIs(t, err, ErrPermission)
		assert.NotErrorIs(t, err, ErrLost)
		assert.True(t, outer.Valid())
		f.heal()
		require.NoError(t, outer.Unlock(t.Context()))
		assert.False(t, f.Exists("k"), "the new one was given up")
	})
}

// By the token nothing is known on a quorum, where a re-entry that asks has a larger one in any case, nor
// where another owner of the same client has had a larger one meanwhile.
func TestReentryIntoALeaseThatWasLostUnnoticedWhereTheTokenDoesNotTell(t *testing.T) {
	type take func(*Mutex, context.Context) (*Lease, error)
	each := func(t *testing.T, test func(t *testing.T, opts []Option, take take)) {
		for name, opts := range map[string][]Option{"reentrant": {Reentrant(), Fenced()}, "writing": {ForWriting(), Fenced()}} {
			for how, take := range map[string]take{"lock": (*Mutex).Lock, "try": (*Mutex).TryLock} {
				t.Run(name+", "+how, func(t *testing.T) { test(t, opts, take) })
			}
		}
	}
	assertLost := func(t *testing.T, outer *Lease, err error) {
		assert.ErrorIs(t, err, ErrLost)
		assert.ErrorIs(t, context.Cause(outer.Context()), ErrNotHeld)
		assert.ErrorIs(t, outer.Unlock(t.Context()), ErrNotHeld)
		synctest.Wait()
	}
	t.Run("quorum", func(t *testing.T) {
		each(t, func(t *testing.T, opts []Option, take take) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{LongestTTL: time.Hour})
				outer := must(t, c.Mutex("k", opts...))
				within := c.Mutex("k", append(opts, TTL(time.Hour))...) // more than is left of the outer one
				for range 2 {                                           // the other time its token is smaller than that of the inner one
					inner, err := take(within, outer.Context())
					require.NoError(t, err)
					require.NoError(t, inner.Unlock(t.Context()))
				}
				require.True(t, outer.Valid())

				for _, f := range nodes {
					f.Del("k")
				}
				require.NoError(t, must(t, nodes.client(t, QuorumConfig{LongestTTL: time.Hour}).Mutex("k", opts...)).Unlock(t.Context()), "another one has been there")
				synctest.Wait()
				_, err := take(within, outer.Context())
				assertLost(t, outer, err)
				assert.Zero(t, nodes.holding("k"), "nobody holds it")
			})
		})
	})
	t.Run("another owner of the client", func(t *testing.T) {
		each(t, func(t *testing.T, opts []Option, take take) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", opts...)
				outer := must(t, m)
				f.Del("k")
				require.NoError(t, must(t, m).Unlock(t.Context()), "another one has been there")
				_, err := take(m, outer.Context())
				assertLost(t, outer, err)
				assert.False(t, f.Exists("k"), "nobody holds it")
			})
		})
	})
}

// Where the owner's lease is there still, a re-entry that has a larger token says nothing about it.
func TestReentryWithALargerTokenLeavesTheOuterLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k", Reentrant(), Fenced(), As(NewOwner()))
		outer := must(t, m)
		apart := must(t, m) // so that it is detached by itself
		id, err := apart.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		require.Greater(t, taken.Token(), outer.Token())
		require.NoError(t, taken.Unlock(t.Context()))

		inner := must(t, m)
		assert.Greater(t, inner.Token(), taken.Token())
		assert.True(t, outer.Valid())
		require.NoError(t, inner.Unlock(t.Context()))
		require.NoError(t, outer.Unlock(t.Context()))
	})
}

// What asks whether the reader is still there may be answered late, or never.
func TestUpgradeInAnOutageAfterTheLockWasHad(t *testing.T) {
	outage := func(f *fakeDeployment) (confirmations *atomic.Int32) {
		confirmations = new(atomic.Int32)
		f.set(func() {
			f.after = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() == "EVALSHA" && cmd.Args[1] == holdFamily.renew.sha() {
					confirmations.Add(1)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		return confirmations
	}
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		reading := must(t, f.client(t).Mutex("k", ForReading(), TTL(time.Minute)))
		outage(f)
		begun := time.Now()
		_, err := reading.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		assert.LessOrEqual(t, time.Since(begun), (1+resends)*(DefaultAttemptTimeout+time.Second), "it does not wait")
		assert.True(t, reading.Valid())
		f.heal()
		must(t, f.client(t).Mutex("k", ForReading()))
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		reading := must(t, f.client(t).Mutex("k", ForReading(), TTL(time.Minute)))
		confirmations := outage(f)
		time.AfterFunc(10*time.Second, f.heal)
		writing, err := reading.Upgrade(t.Context())
		require.NoError(t, err)
		assert.Greater(t, confirmations.Load(), int32(1+resends), "it waits for the server")
		assert.True(t, writing.Valid())
		assert.True(t, reading.Valid())
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		reading := must(t, f.client(t).Mutex("k", ForReading(), TTL(time.Minute)))
		outage(f)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := reading.Upgrade(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.True(t, reading.Valid())
		f.heal()
		synctest.Wait() // it is given up in the background
		must(t, f.client(t).Mutex("k", ForReading()))
	})
}

// Where the lease runs out meanwhile, that is what is told, and not what the requests came to.
func TestChangeOfALeaseThatRunsOutBeforeItIsConfirmedTellsOfTheLoss(t *testing.T) {
	for name, test := range map[string]struct {
		opts   []Option
		change func(l *Lease) error
	}{
		"Upgrade":    {[]Option{ForReading()}, func(l *Lease) error { return failureOf(l.Upgrade(context.Background())) }},
		"TryUpgrade": {[]Option{ForReading()}, func(l *Lease) error { return failureOf(l.TryUpgrade(context.Background())) }},
		"Detach":     {[]Option{Reentrant(), As(NamedOwner("me"))}, detachForAMinute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", append(test.opts, TTL(time.Second))...)
				lease := must(t, m)
				if lease.Mode() == Exclusive {
					must(t, m) // so that it is detached by itself
				}
				f.set(func() {
					f.before = func(ctx context.Context, cmd driver.Command) error {
						if !holdFamily.renew.runs(cmd) {
							return nil
						}
						<-ctx.Done()
						return ctx.Err()
					}
				})
				err := test.change(lease)
				assert.ErrorIs(t, err, ErrLost)
				assert.Equal(t, lease.Err(), err)
			})
		})
	}
}

// Nor may it be answered with a refusal, or when the client has been closed.
func TestUpgradeThatCannotAskWhetherTheReaderIsThereHasNoLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		reading := must(t, f.client(t).Mutex("k", ForReading()))
		f.set(func() { f.before = refusesScript(holdFamily.renew, driver.NewServerError("NOPERM no")) })
		begun := time.Now()
		_, err := reading.Upgrade(t.Context())
		assert.ErrorIs(t, err, ErrPermission)
		assert.Zero(t, time.Since(begun))
		assert.True(t, reading.Valid())
		must(t, f.client(t).Mutex("k", ForReading()))
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		reading := must(t, c.Mutex("k", ForReading(), TTL(time.Minute)))
		var asked atomic.Int32
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.renew.runs(cmd) {
					asked.Add(1)
					return errLostReply
				}
				return nil
			}
		})
		time.AfterFunc(5*time.Second, func() { _ = c.Close() })
		_, err := reading.Upgrade(t.Context())
		assert.ErrorIs(t, err, ErrClosed)
		assert.LessOrEqual(t, asked.Load(), int32(12), "it asks once in a while")
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		reading := must(t, f.client(t).Mutex("k", ForReading()))
		lost := once("EVALSHA", errLostReply)
		f.set(func() {
			f.after = func(ctx context.Context, cmd driver.Command) error {
				if holdFamily.renew.runs(cmd) {
					return lost(ctx, cmd)
				}
				return nil
			}
		})
		_, err := reading.TryUpgrade(t.Context())
		assert.NoError(t, err, "one reply that is lost is made up for")
	})
}

// A writer that runs out because its release comes late has left no gap: the reader was there before.
func TestDowngradeWhoseReleaseComesLate(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Second), ReadTTL(time.Minute)))
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() == "EVALSHA" && cmd.Args[1] == holdFamily.release.sha() {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		time.AfterFunc(1500*time.Millisecond, f.heal)
		reading, err := writing.Downgrade(t.Context())
		require.NoError(t, err)
		assert.True(t, reading.Valid())
		assert.NoError(t, writing.Unlock(t.Context()), "it was given up in time, and has run out since")
	})
}

// Nor where it was sent only after that, and has found nothing.
func TestDowngradeWhoseReleaseIsSentWhenTheLeaseHasRunOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Second), ReadTTL(time.Minute)))
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.release.runs(cmd) {
					return driver.NotSent(errors.New("no route"))
				}
				return nil
			}
		})
		time.AfterFunc(1500*time.Millisecond, f.heal)
		reading, err := writing.Downgrade(t.Context())
		require.NoError(t, err)
		assert.True(t, reading.Valid())
		assert.ErrorIs(t, writing.Unlock(t.Context()), ErrNotHeld)
	})
}

// The lease that was taken has not been returned then, and nobody would ever give it up.
func TestChangeOfALeaseInWhichTheDriverPanicsHoldsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		opts     []Option
		renewals int // of which the last one panics
		change   func(l *Lease) error
	}{
		"upgrade": {[]Option{ForReading()}, 1, func(l *Lease) error { _, err := l.Upgrade(context.Background()); return err }},
		"detach, before it is known that nobody was in between": {[]Option{Reentrant()}, 1, detachForAMinute},
		"detach": {[]Option{Reentrant()}, 2, detachForAMinute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", append(test.opts, As(NewOwner()))...)
				lease := must(t, m)
				again := must(t, m) // so that it is detached by itself
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Args[1] == holdFamily.renew.sha() {
							if test.renewals--; test.renewals == 0 {
								panic("in the driver")
							}
						}
						return nil
					}
				})
				assert.PanicsWithValue(t, "in the driver", func() { _ = test.change(lease) })
				f.heal()
				require.NoError(t, lease.Unlock(t.Context()))
				require.NoError(t, again.Unlock(t.Context()))
				time.Sleep(cleanupPause)
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

func detachForAMinute(l *Lease) error {
	_, err := l.Detach(context.Background(), time.Minute)
	return err
}

// Of a lease that its owner has re-entered the others are given up while it is detached, so that it is the last.
func TestDetachThatBecomesTheLastLeavesTheDetachedHoldOnly(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
		other, lease := must(t, m), must(t, m)
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if isAcquire(cmd) {
					assert.NoError(t, other.Unlock(t.Context()))
				}
				return nil
			}
		})
		id, err := lease.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		f.heal()
		taken, err := f.client(t).Mutex("k", Reentrant()).Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, taken.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

// Where that cannot be asked, the lock was taken for a moment all the same.
func TestUpgradeThatCannotBeConfirmedWasSent(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		reading := must(t, f.client(t).Mutex("k", ForReading(), TTL(time.Minute)))
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.renew.runs(cmd) {
					return driver.NotSent(errors.New("no route"))
				}
				return nil
			}
		})
		_, err := reading.TryUpgrade(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.ErrorContains(t, err, "no route")
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		assert.True(t, reading.Valid())
	})
}

// What it takes to give up what was taken in vain does not keep the caller longer than its ctx says.
func TestChangeOfALeaseInAnOutageEndsWithItsContext(t *testing.T) {
	for name, test := range map[string]struct {
		opts   []Option
		change func(ctx context.Context, l *Lease) error
	}{
		"Upgrade":    {[]Option{ForReading()}, func(ctx context.Context, l *Lease) error { _, err := l.Upgrade(ctx); return err }},
		"TryUpgrade": {[]Option{ForReading()}, func(ctx context.Context, l *Lease) error { _, err := l.TryUpgrade(ctx); return err }},
		"Detach": {[]Option{Reentrant(), As(NamedOwner("me"))}, func(ctx context.Context, l *Lease) error {
			must(t, l.mutex) // the owner has it twice
			_, err := l.Detach(ctx, 2*time.Minute)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				lease := must(t, f.client(t).Mutex("k", append(test.opts, TTL(time.Minute))...))
				f.set(func() {
					f.after = func(_ context.Context, cmd driver.Command) error {
						if isAcquire(cmd) && lease.Mode() != Exclusive || holdFamily.renew.runs(cmd) {
							f.hang()
						}
						return nil
					}
				})
				why := errors.New("no time left")
				ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, why)
				defer cancel()
				begun := time.Now()
				err := test.change(ctx, lease)
				assert.ErrorIs(t, err, why)
				assert.ErrorIs(t, err, context.DeadlineExceeded)
				assert.ErrorIs(t, err, ErrUnavailable)
				assert.NotContains(t, err.Error(), "and then", "what was taken is given up in the background")
				assert.Equal(t, 3*time.Second, time.Since(begun))
				assert.True(t, lease.Valid())
				f.heal()
				time.Sleep(20 * time.Second)
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// Nor may Detach of a lease that its owner has re-entered go on where nobody can say whether that is there still.
func TestDetachThatCannotAskWhetherTheOuterLeaseIsThereLeavesNothing(t *testing.T) {
	for name, fault := range map[string]error{"refused": driver.NewServerError("NOPERM no"), "unanswered": errLostReply} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
				outer, inner := must(t, m), must(t, m)
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if holdFamily.renew.runs(cmd) && slices.Contains(cmd.Args, outer.tenure.id) {
							return fault
						}
						return nil
					}
				})
				_, err := inner.Detach(within(t, time.Second), time.Minute)
				assert.Error(t, err)
				assert.True(t, inner.Valid())
				f.heal()
				require.NoError(t, inner.Unlock(t.Context()))
				require.NoError(t, outer.Unlock(t.Context()))
				synctest.Wait()
				assert.False(t, f.Exists("k"), "no hold of Detach is left")
			})
		})
	}
}

// What is over by the time at which it would be left on the server is not left there.
func TestALeaseThatIsOverIsNotLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		_, left, err := lease.detach()
		assert.False(t, left)
		assert.ErrorIs(t, err, ErrReleased)
	})
}
