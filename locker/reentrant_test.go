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

func TestReentryOnOneClientCostsNoRoundTrip(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), Fenced())
		ctx := WithOwner(t.Context(), NewOwner())
		outer, err := m.Lock(ctx)
		require.NoError(t, err)
		f.reset()
		inner, err := m.Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, outer.Token(), inner.Token(), "within a lease the token stays")
		require.NoError(t, outer.Unlock(ctx))
		assert.Empty(t, f.commands())
		assert.True(t, inner.Valid())
		assert.ErrorIs(t, context.Cause(outer.Context()), ErrReleased)
		_, err = f.client(t).Mutex("k", Reentrant()).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		require.NoError(t, inner.Unlock(ctx))
		assert.False(t, f.Exists("k"))
	})
}

func TestReentryAsksTheServerWhereLittleIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), Fenced(), NoRenewal(), TTL(10*time.Second))
		ctx := WithOwner(t.Context(), NewOwner())
		outer, err := m.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(6 * time.Second)
		inner, err := m.Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, outer.Token(), inner.Token())
		assert.Less(t, outer.Deadline(), inner.Deadline(), "every hold has its own deadline")
		time.Sleep(5 * time.Second)
		assert.False(t, outer.Valid())
		assert.True(t, inner.Valid())
		assert.ErrorIs(t, outer.Unlock(ctx), ErrTaken, "who is not a holder any more is told so")
		require.NoError(t, inner.Unlock(ctx))
		assert.False(t, f.Exists("k"))
	})
}

// A helper that wants more of the lease than is left has it from the server. When it is through,
// its caller re-enters what it held before, and no store refuses the caller's token.
func TestTokenStaysAfterAReentryThatAskedTheServer(t *testing.T) {
	for name, mode := range map[string]Option{"reentrant": Reentrant(), "writing": ForWriting()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c, owner := f.client(t), As(NewOwner())
				short := c.Mutex("k", mode, owner, Fenced(), TTL(10*time.Second))
				long := c.Mutex("k", mode, owner, Fenced(), TTL(time.Minute))
				outer := must(t, short)
				for _, m := range []*Mutex{long, long, short, long} {
					inner := must(t, m)
					assert.Equal(t, outer.Token(), inner.Token())
					require.NoError(t, inner.Unlock(t.Context()))
				}
				assert.Same(t, outer.tenure, must(t, short).tenure)
			})
		})
	}
}

// On a quorum such a helper has a larger token. A store that has seen it refuses the outer
// lease's, so that no later re-entry has that.
func TestQuorumTokenDoesNotGoBackAfterAReentry(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c, owner := nodes.client(t, QuorumConfig{}), As(NewOwner())
		short := c.Mutex("k", Reentrant(), owner, Fenced(), TTL(10*time.Second))
		long := c.Mutex("k", Reentrant(), owner, Fenced(), TTL(time.Minute))
		outer, inner := must(t, short), must(t, long)
		require.Greater(t, inner.Token(), outer.Token())
		require.NoError(t, inner.Unlock(t.Context()))
		require.True(t, outer.Valid())
		assert.Greater(t, must(t, short).Token(), inner.Token())
	})
}

func TestOwnerNamedTheSameReentersFromAnotherProcess(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		job := As(NamedOwner("job-17"))
		here, err := f.client(t).Mutex("k", Reentrant(), Fenced(), job).Lock(t.Context())
		require.NoError(t, err)
		there, err := f.client(t).Mutex("k", Reentrant(), Fenced(), job).Lock(t.Context())
		require.NoError(t, err)
		assert.Greater(t, there.Token(), here.Token(), "from another process it is a new one")
		s, err := f.client(t).Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, s.Holders, 1)
		assert.Equal(t, 2, s.Holders[0].Holds)
		assert.Equal(t, "job-17", s.Holders[0].Owner)
		require.NoError(t, here.Unlock(t.Context()))
		_, err = f.client(t).Mutex("k", Reentrant()).TryLock(t.Context())
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "job-17", locked.Holder.Owner)
		require.NoError(t, there.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

func TestDoReentersByItsContext(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant())
		depth := 0
		err := m.Do(t.Context(), func(ctx context.Context) error {
			return m.Do(ctx, func(ctx context.Context) error {
				depth++
				lease, err := m.TryLock(ctx)
				require.NoError(t, err)
				defer lease.Unlock(ctx)
				outer, _ := FromContext(ctx)
				assert.Equal(t, outer.Owner(), lease.Owner())
				return nil
			})
		})
		require.NoError(t, err)
		assert.Equal(t, 1, depth)
		assert.False(t, f.Exists("k"))
	})
}

func TestNestedLockOfAPlainMutexNamesTheDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k")
		begun := time.Now()
		err := m.Do(t.Context(), func(ctx context.Context) error {
			_, err := c.Mutex("other").Lock(ctx)
			require.NoError(t, err, "another lock is none")
			_, err = m.TryLock(ctx)
			assert.ErrorIs(t, err, ErrLocked, "who does not wait is not in a deadlock")
			_, err = m.Lock(ctx)
			return err
		})
		assert.ErrorIs(t, err, ErrDeadlock)
		deadlock, ok := errors.AsType[*DeadlockError](err)
		require.True(t, ok)
		assert.Equal(t, DeadlockError{Name: "k", Nested: true}, *deadlock)
		assert.Zero(t, time.Since(begun))

		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		_, err = m.Lock(lease.Context())
		assert.ErrorIs(t, err, ErrDeadlock)
		require.NoError(t, lease.Unlock(t.Context()))
		_, err = m.Lock(context.WithoutCancel(lease.Context()))
		assert.NoError(t, err, "a lease that is over is no obstacle")
	})
}

func TestReentryUnderAnotherOwnerNamesTheDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant())
		err := m.Do(t.Context(), func(ctx context.Context) error {
			return m.Do(WithOwner(ctx, NewOwner()), func(context.Context) error { return nil })
		})
		assert.ErrorIs(t, err, ErrDeadlock)
	})
}

// Else goroutines that work under one lock would not exclude each other at the next.
func TestTheContextOfALeaseGivesItsOwnerToNoOtherLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, elsewhere := f.client(t), newDeployment(t).client(t)
		err := c.Mutex("k", Reentrant()).Do(t.Context(), func(ctx context.Context) error {
			outer, _ := FromContext(ctx)
			for _, m := range []*Mutex{c.Mutex("other", Reentrant()), elsewhere.Mutex("k", Reentrant())} {
				lease, err := m.TryLock(ctx)
				require.NoError(t, err)
				assert.NotEqual(t, outer.Owner(), lease.Owner())
				_, err = m.TryLock(ctx)
				assert.ErrorIs(t, err, ErrLocked)
			}
			return nil
		})
		require.NoError(t, err)
		err = c.Mutex("plain").Do(t.Context(), func(ctx context.Context) error {
			_, err := elsewhere.Mutex("plain").Lock(ctx)
			return err
		})
		assert.NoError(t, err, "which is no deadlock")
	})
}

// Of the sides of a read-write lock only readers do not wait for each other.
func TestAnotherOwnerOfTheOtherSideUnderTheContextNamesTheDeadlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for _, sides := range [][2]Option{{ForReading(), ForWriting()}, {ForWriting(), ForReading()}, {ForWriting(), ForWriting()}} {
			held := must(t, c.Mutex("k", sides[0]))
			_, err := c.Mutex("k", sides[1], As(NewOwner()), WaitTimeout(time.Second)).Lock(held.Context())
			assert.ErrorIs(t, err, ErrDeadlock)
			require.NoError(t, held.Unlock(t.Context()))
		}
		_, err := c.Mutex("k", ForReading(), As(NewOwner())).Lock(must(t, c.Mutex("k", ForReading())).Context())
		assert.NoError(t, err)
	})
}

// A lease of a plain mutex, which the context carries still, has no owner to go by.
func TestReentrantLockUnderTheContextOfAMutexHasAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		plain := must(t, c.Mutex("k"))
		ctx := plain.Context()
		require.NoError(t, plain.Unlock(t.Context()))
		lease, err := c.Mutex("k", Reentrant()).TryLock(context.WithoutCancel(ctx))
		require.NoError(t, err)
		assert.NotEmpty(t, lease.Owner().String())
		_, err = c.Mutex("k", Reentrant()).TryLock(lease.Context())
		assert.NoError(t, err)
	})
}

func TestOwnersThatCannotBe(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for _, o := range []Owner{NamedOwner(""), NamedOwner("a|b"), NamedOwner("a\x00"), NamedOwner(string(make([]byte, 300)))} {
			_, err := c.Mutex("k", Reentrant(), As(o)).Lock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid, "%q", o)
			_, err = c.Mutex("k", ForReading()).TryLock(WithOwner(t.Context(), o))
			assert.ErrorIs(t, err, ErrInvalid, "%q", o)
		}
		_, err := c.Mutex("k", Reentrant(), As(Owner{})).Lock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
		for _, ttl := range []time.Duration{time.Millisecond, MinTTL - 1, MaxTTL + 1} {
			_, err = c.Mutex("k", ForReading(), ReadTTL(ttl)).Lock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid, ttl)
			_, err = c.Mutex("k", TTL(ttl)).Lock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid, ttl)
		}
		assert.Empty(t, f.commands())
	})
}

func TestKindsExcludeEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		kinds := map[string][]Option{
			"mutex": nil, "reentrant lock": {Reentrant()}, "read-write lock": {ForReading()},
		}
		for held, opts := range kinds {
			lease, err := c.Mutex("k", opts...).Lock(t.Context())
			require.NoError(t, err)
			for wanted, others := range kinds {
				if wanted == held {
					continue
				}
				_, err := c.Mutex("k", others...).Lock(t.Context())
				foreign, ok := errors.AsType[*ForeignError](err)
				require.True(t, ok, "a %s while it is held as %s: %v", wanted, held, err)
				assert.Equal(t, held, foreign.Type)
			}
			assert.True(t, lease.Valid())
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// The request that notices that a lease has run out hands the lock to who waits, and
// comes too late itself, also where it is made by the same owner.
func TestKindsExcludeEachOtherWhenALeaseRunsOut(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		owner := As(NewOwner())
		_, err := f.client(t).Mutex("k", Reentrant(), TTL(time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		waiting := background(t, f.client(t).Mutex("k", Reentrant(), owner))
		time.Sleep(time.Second)
		_, err = f.client(t).Mutex("k", ForReading(), owner).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrForeign)
		lease := <-waiting
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestDetachOfASharedHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k", Reentrant(), Fenced(), As(NamedOwner("job")))
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		inner, err := m.Lock(t.Context())
		require.NoError(t, err)
		id, err := inner.Detach(t.Context(), 10*time.Second)
		require.NoError(t, err)
		assert.False(t, inner.Valid())
		assert.True(t, outer.Valid())
		require.NoError(t, outer.Unlock(t.Context()))
		taken, err := f.client(t).Mutex("k", Reentrant(), Fenced()).Attach(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, "job", taken.Owner().String())
		assert.Greater(t, taken.Token(), outer.Token())
		require.NoError(t, taken.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

// A lease of several is held as before where Detach cannot even begin. Nothing is left of calls that have ended.
func TestDetachOfASharedHoldUnderAContextThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
		outer, inner := must(t, m), must(t, m)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := inner.Detach(ended, time.Minute)
		assert.ErrorIs(t, err, context.Canceled)
		assert.True(t, inner.Valid())
		_, err = inner.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		assert.Zero(t, m.client.calls)
		require.NoError(t, outer.Unlock(t.Context()))
		_, err = outer.Detach(t.Context(), time.Minute)
		assert.ErrorIs(t, err, ErrReleased)
	})
}

// So it is where the server does not answer.
func TestDetachOfASharedHoldInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
		outer, inner := must(t, m), must(t, m)
		f.hang()
		_, err := inner.Detach(within(t, time.Second), time.Minute)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrUnavailable)
		f.heal()
		assert.True(t, inner.Valid())
		require.NoError(t, inner.Unlock(t.Context()))
		require.NoError(t, outer.Unlock(t.Context()))
		synctest.Wait()
		assert.False(t, f.Exists("k"))
	})
}

// Whoever re-enters the lock meanwhile has a hold that stays, and not the one that is detached.
func TestReentryWhileAHoldIsDetached(t *testing.T) {
	for name, shared := range map[string]bool{"alone": false, "shared": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", Reentrant(), As(NamedOwner("job")))
				lease := must(t, m)
				held := []*Lease{}
				if shared {
					held = append(held, must(t, m))
				}
				stays := lease.tenure
				var again *Lease
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if again == nil && holdFamily.renew.runs(cmd) && (cmd.Args[firstKey+cmd.NumKeys] == stays.id) != shared {
							again = must(t, m)
						}
						return nil
					}
				})
				id, err := lease.Detach(t.Context(), 10*time.Second)
				require.NoError(t, err)
				require.NotNil(t, again)
				assert.Same(t, stays, again.tenure)
				f.heal()
				taken, err := f.client(t).Mutex("k", Reentrant()).Attach(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, taken.Unlock(t.Context()))
				assert.True(t, f.Exists("k"))
				for _, lease := range append(held, again) {
					assert.NoError(t, lease.Unlock(t.Context()))
				}
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

// A request that arrives once more takes nothing, also when its lease has been
// detached and taken up in between.
func TestLateAcquireAfterAnAttachTakesNothing(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": {Fenced()}, "reentrant": {Reentrant()}, "reading": {ForReading()}, "writing": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				var acquire driver.Command
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if acquire.Args == nil {
							acquire = cmd
						}
						return nil
					}
				})
				m := f.client(t).Mutex("k", opts...)
				lease, err := m.Lock(t.Context())
				require.NoError(t, err)
				id, err := lease.Detach(t.Context(), 10*time.Second)
				require.NoError(t, err)
				taken, err := m.Attach(t.Context(), id)
				require.NoError(t, err)
				late := func() {
					conn, err := f.Connect(t.Context())
					require.NoError(t, err)
					defer conn.Close()
					_, err = conn.Do(t.Context(), acquire)
					require.NoError(t, err)
				}
				late()
				require.NoError(t, taken.Unlock(t.Context()))
				assert.False(t, f.Exists("k"))
				late()
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

func TestReentrantLockWaitsForAnotherOwner(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant())
		first := WithOwner(t.Context(), NewOwner())
		held, err := m.Lock(first)
		require.NoError(t, err)
		got := make(chan *Lease)
		go func() {
			lease, err := m.Lock(t.Context())
			assert.NoError(t, err)
			got <- lease
		}()
		synctest.Wait()
		again, err := m.Lock(first)
		require.NoError(t, err, "the owner goes before those who wait for it")
		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		select {
		case <-got:
			t.Fatal("granted while a hold is left")
		default:
		}
		begun := time.Now()
		require.NoError(t, again.Unlock(t.Context()))
		lease := <-got
		assert.Zero(t, time.Since(begun))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A lease that its owner has re-entered is lost while Detach asks for a hold of its own, and others
// have the lock before that is answered: what is detached then would not be what was held.
func TestDetachOfASharedLeaseThatIsLostMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NamedOwner("job")), Fenced(), TTL(4*time.Second))
		outer, inner := must(t, m), must(t, m)
		require.Same(t, outer.tenure, inner.tenure)
		var cut atomic.Bool
		cut.Store(true)
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cut.Load() && cmd.Name() == "EVALSHA" {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		time.Sleep(1500 * time.Millisecond)
		detached := make(chan error, 1)
		go func() { _, err := inner.Detach(t.Context(), 10*time.Second); detached <- err }()
		time.Sleep(2800 * time.Millisecond)
		require.ErrorIs(t, inner.Err(), ErrLost)
		cut.Store(false)
		other, err := f.client(t).Mutex("k", Reentrant(), Fenced()).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
		require.ErrorIs(t, <-detached, ErrLost)
		mustPair(t, f.client(t).Mutex("k", Reentrant()))
	})
}

// While Detach of a shared lease lengthens the hold that it leaves on the server, another call gives the
// lease up. It is over by one of them, and the other one leaves nothing.
func TestASharedLeaseIsDetachedOrGivenUpOnce(t *testing.T) {
	for name, giveUp := range map[string]func(l *Lease) error{
		"Detach": func(l *Lease) error { _, err := l.Detach(context.Background(), time.Minute); return err },
		"Unlock": func(l *Lease) error { return l.Unlock(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
				outer, inner := must(t, m), must(t, m)
				goOn := make(chan struct{})
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Args[1] == holdFamily.renew.sha() && !slices.Contains(cmd.Args, inner.tenure.id) {
							<-goOn
						}
						return nil
					}
				})
				ended := make(chan error, 2)
				go func() { _, err := inner.Detach(t.Context(), time.Minute); ended <- err }()
				synctest.Wait()
				go func() { ended <- giveUp(inner) }()
				synctest.Wait()
				close(goOn)
				var errs []error
				for range 2 {
					if err := <-ended; err != nil {
						errs = append(errs, err)
					}
				}
				require.Len(t, errs, 1)
				assert.ErrorIs(t, errs[0], ErrReleased)
				assert.True(t, outer.Valid())
				require.NoError(t, outer.Unlock(t.Context()))
				holds := 0
				if f.Exists("k") {
					fields, err := f.HKeys("k")
					require.NoError(t, err)
					for _, field := range fields {
						if isID(field) {
							holds++
						}
					}
				}
				assert.Equal(t, map[string]int{"Detach": 1, "Unlock": 0}[name], holds)
			})
		})
	}
}

// What has become of one lease of several is what its own holder has done, whatever the others do.
func TestUnlockOfALeaseBesideOneThatIsDetachedSaysTheSameAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
		unlocked, last := must(t, m), must(t, m)
		lost, err := m.client.Mutex("k", Reentrant(), As(last.Owner()), MaxHold(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		require.Same(t, last.tenure, lost.tenure)
		require.NoError(t, unlocked.Unlock(t.Context()))
		<-lost.Context().Done()
		_, err = last.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		assert.NoError(t, unlocked.Unlock(t.Context()))
		assert.NoError(t, lost.Unlock(t.Context()))
		assert.ErrorIs(t, last.Unlock(t.Context()), ErrReleased)
		assert.True(t, f.Exists("k"))
	})
}

// Another process of the owner re-enters although somebody waits: for that one the owner would wait for itself.
func TestOwnerNamedTheSameReentersBeforeThoseWhoWait(t *testing.T) {
	for name, opt := range map[string]Option{"reentrant": Reentrant(), "writer": ForWriting()} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				job := As(NamedOwner("job-17"))
				here := must(t, f.client(t).Mutex("k", opt, job))
				waiter := background(t, f.client(t).Mutex("k", opt))
				there := must(t, f.client(t).Mutex("k", opt, job))
				require.NoError(t, here.Unlock(t.Context()))
				assert.Nil(t, granted(waiter))
				require.NoError(t, there.Unlock(t.Context()))
				assert.NotNil(t, granted(waiter))
			})
		})
	}
}
