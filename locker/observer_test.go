package locker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// seen are the events that an observer was told of.
type seen struct {
	mu            sync.Mutex
	starts        []LockStart
	locks         []LockEnd
	holds         []HoldEnd
	renewals      []Renewal
	healings      []Healed
	subscriptions []Subscription
	warnings      []Warning
	contexts      []context.Context // of LockEnd and HoldEnd
}

type startedAt struct{}

func (s *seen) observer() ClientOption {
	with := func(f func()) {
		s.mu.Lock()
		defer s.mu.Unlock()
		f()
	}
	return Observe(Observer{
		LockStart: func(ctx context.Context, e LockStart) context.Context {
			with(func() { s.starts = append(s.starts, e) })
			return context.WithValue(ctx, startedAt{}, time.Now())
		},
		LockEnd: func(ctx context.Context, e LockEnd) {
			with(func() { s.locks, s.contexts = append(s.locks, e), append(s.contexts, ctx) })
		},
		HoldEnd: func(ctx context.Context, e HoldEnd) {
			with(func() { s.holds, s.contexts = append(s.holds, e), append(s.contexts, ctx) })
		},
		Renewal:      func(e Renewal) { with(func() { s.renewals = append(s.renewals, e) }) },
		Healed:       func(e Healed) { with(func() { s.healings = append(s.healings, e) }) },
		Subscription: func(e Subscription) { with(func() { s.subscriptions = append(s.subscriptions, e) }) },
		Warning:      func(e Warning) { with(func() { s.warnings = append(s.warnings, e) }) },
	})
}

// observe runs a test whose client has an observer, in a bubble.
func observe(t *testing.T, test func(t *testing.T, f *fakeDeployment, c *Client, s *seen)) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		s := &seen{}
		test(t, f, f.client(t, s.observer()), s)
	})
}

func TestObserverIsToldOfALock(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		info := LockInfo{Name: "k", Mode: Exclusive, Fenced: true, TTL: 10 * time.Second}
		lease, err := c.Mutex("k", TTL(10*time.Second), Fenced()).Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, []LockStart{{info, "lock"}}, s.starts)
		left := 10*time.Second - margin(10*time.Second)
		assert.Equal(t, []LockEnd{{LockInfo: info, Op: "lock", Route: Direct, Left: left}}, s.locks)
		assert.False(t, s.locks[0].Contended())
		assert.Equal(t, "acquired", s.locks[0].Outcome())

		time.Sleep(time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()), "again, which is not told")
		assert.Equal(t, []HoldEnd{{LockInfo: info, Token: lease.Token(), Held: time.Second, Left: left - time.Second}}, s.holds)
		assert.Equal(t, "released", s.holds[0].Outcome())
		for _, ctx := range s.contexts {
			assert.IsType(t, time.Time{}, ctx.Value(startedAt{}))
		}
	})
}

// What an observer has begun with a call it can end, also where a program recovers as net/http
// does: else a gauge of the calls in progress would be wrong for ever.
func TestObserverIsToldOfACallThatPanics(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		panics := func(int, float64) (time.Duration, bool) { time.Sleep(time.Second); panic("mine") }
		assert.PanicsWithValue(t, "mine", func() { _, _ = c.Mutex("k", Retry(panics)).Lock(t.Context()) })
		require.Len(t, s.locks, len(s.starts))
		e := s.locks[1]
		assert.Equal(t, "error", e.Outcome())
		assert.EqualError(t, e.Err, "locker: the call panicked")
		assert.Equal(t, LockInfo{Name: "k", Mode: Exclusive, TTL: DefaultTTL}, e.LockInfo)
		assert.Equal(t, "lock", e.Op)
		assert.Equal(t, time.Second, e.Wait)
		require.NoError(t, held.Unlock(t.Context()))
		assert.Len(t, s.holds, 1)
	})
}

// An observer that makes spans derives a context that works, also of a nil one.
func TestObserverMakesNoContextOfNone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Observe(Observer{LockStart: func(context.Context, LockStart) context.Context { return context.Background() }}))
		var none context.Context
		assert.Panics(t, func() { _, _ = c.Mutex("k").Lock(none) })
		assert.Panics(t, func() { _, _ = c.Mutex("k").Attach(none, newID()) })
		assert.Empty(t, c.Snapshot().Leases)
	})
}

func TestObserverIsToldWhyThereIsNoLock(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		outcome := func(err error) string {
			t.Helper()
			require.Error(t, err)
			e := s.locks[len(s.locks)-1]
			assert.Equal(t, err, e.Err)
			assert.Empty(t, e.Route)
			assert.Zero(t, e.Left)
			return e.Outcome()
		}
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.Equal(t, "locked", outcome(err))
		assert.Equal(t, "try", s.starts[len(s.starts)-1].Op)
		_, err = c.Mutex("k", WaitTimeout(time.Second)).Lock(t.Context())
		assert.Equal(t, "timeout", outcome(err))
		assert.Equal(t, time.Second, s.locks[len(s.locks)-1].Wait)
		assert.True(t, s.locks[len(s.locks)-1].Contended())
		ctx, cancel := context.WithCancel(t.Context())
		go func() { synctest.Wait(); cancel() }()
		_, err = c.Mutex("k").Lock(ctx)
		assert.Equal(t, "canceled", outcome(err))
		ctx, stop := context.WithCancelCause(t.Context())
		stop(errors.New("enough"))
		_, err = c.Mutex("k").Lock(ctx)
		assert.Equal(t, "canceled", outcome(err))
		_, err = c.Mutex("k").Lock(held.Context())
		assert.Equal(t, "deadlock", outcome(err))
		_, err = c.Mutex("").Lock(t.Context())
		assert.Equal(t, "invalid", outcome(err))
		_, err = c.Mutex("k", Reentrant()).Lock(t.Context())
		assert.Equal(t, "foreign", outcome(err))
		_, err = c.Mutex("absent").Attach(t.Context(), newID())
		assert.Equal(t, "absent", outcome(err))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
		})
		_, err = c.Mutex("other").TryLock(t.Context())
		assert.Equal(t, "unavailable", outcome(err))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NewServerError("NOPERM no") }
		})
		_, err = c.Mutex("other").TryLock(t.Context())
		assert.Equal(t, "error", outcome(err))
		f.set(func() { f.before = nil })
		require.NoError(t, c.Close())
		_, err = c.Mutex("k").Lock(t.Context())
		assert.Equal(t, "closed", outcome(err))
	})
}

// What ends by its deadline in an outage is not counted among what others have kept waiting.
func TestOutcomeTellsAnOutageFromContention(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held := f.hold(t)
		outcome := func(ctx context.Context, name string, opts ...Option) string {
			t.Helper()
			_, err := c.Mutex(name, opts...).Lock(ctx)
			require.Error(t, err)
			return s.locks[len(s.locks)-1].Outcome()
		}
		assert.Equal(t, "timeout", outcome(within(t, time.Second), "k"))
		assert.Equal(t, "timeout", outcome(t.Context(), "k", WaitTimeout(time.Second)))
		assert.Equal(t, "timeout", outcome(within(t, 0), "free"), "nobody was asked")
		f.hang()
		assert.Equal(t, "unavailable", outcome(within(t, requestTime), "free"))
		assert.Equal(t, "unavailable", outcome(t.Context(), "free", WaitTimeout(requestTime)))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
		})
		assert.Equal(t, "unavailable", outcome(within(t, time.Second), "free"))
		assert.Equal(t, "unavailable", outcome(t.Context(), "free", WaitTimeout(time.Second)))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		assert.Equal(t, "canceled", outcome(ctx, "free"), "who goes away is no failure of the server")
		f.heal()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestObserverIsToldTheRoute(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		other, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		got := inLine(t, c.Mutex("k"), 2)
		time.Sleep(time.Millisecond)
		require.NoError(t, other.Unlock(t.Context()))
		first := granted(got[0])
		require.NotNil(t, first)
		require.NoError(t, first.Unlock(t.Context()))
		second := granted(got[1])
		require.NotNil(t, second)
		require.NoError(t, second.Unlock(t.Context()))

		require.Len(t, s.locks, 2)
		assert.Equal(t, []Route{Queued, HandedOn}, []Route{s.locks[0].Route, s.locks[1].Route})
		for _, e := range s.locks {
			assert.True(t, e.Contended())
			assert.Equal(t, time.Millisecond, e.Wait.Round(time.Millisecond))
		}
		require.Len(t, s.holds, 2)
		assert.Equal(t, []string{"handed_on", "released"}, []string{s.holds[0].Outcome(), s.holds[1].Outcome()})

		m := c.Mutex("x", Reentrant(), As(NamedOwner("me")))
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		again, err := m.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Reentered, s.locks[3].Route)
		assert.False(t, s.locks[3].Contended())
		require.NoError(t, again.Unlock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		assert.Len(t, s.holds, 4, "each lease by itself")
	})
}

// Whoever stood in line had somebody in the way, also where it finds the lock free at the server then.
func TestObserverIsToldTheRouteOfWhoLeadsAfterTheHolder(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		m := c.Mutex("k")
		first := granted(background(t, m))
		require.NoError(t, first.Extend(t.Context(), time.Hour), "so that it is not passed on")
		next := background(t, m)
		require.NoError(t, first.Unlock(t.Context()))
		require.NotNil(t, granted(next))
		require.Len(t, s.locks, 2)
		assert.Equal(t, Queued, s.locks[1].Route)
	})
}

// Whoever was passed a lease that was lost before it had a token had somebody in the way, however it has the lock then.
func TestObserverIsToldTheRouteAfterALeaseThatWasPassedOnInVain(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		m := c.Mutex("k", Fenced())
		first := granted(background(t, m))
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		next := background(t, m)
		require.NoError(t, first.Unlock(t.Context()))
		require.Nil(t, granted(next))
		_, err := f.client(t).ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		f.heal()
		time.Sleep(time.Second)
		require.NotNil(t, granted(next))
		require.Len(t, s.locks, 2)
		assert.Equal(t, Queued, s.locks[1].Route)
	})
}

func TestObserverIsToldOfChangesAndDetachment(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		reading, err := c.Mutex("k", ForReading()).Lock(t.Context())
		require.NoError(t, err)
		writing, err := reading.Upgrade(t.Context())
		require.NoError(t, err)
		require.NoError(t, reading.Unlock(t.Context()))
		again, err := writing.Downgrade(t.Context())
		require.NoError(t, err)
		id, err := again.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		attached, err := c.Mutex("k", ForReading()).Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, attached.Unlock(t.Context()))

		m := c.Mutex("x", ForReading(), As(NamedOwner("me")))
		shared, err := m.Lock(t.Context())
		require.NoError(t, err)
		kept, err := m.Lock(t.Context())
		require.NoError(t, err)
		_, err = shared.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		require.NoError(t, kept.Unlock(t.Context()))
		var ops, ends []string
		for i := range s.starts {
			ops = append(ops, s.starts[i].Op+" "+string(s.locks[i].Mode))
			ends = append(ends, s.holds[i].Outcome()+" "+string(s.holds[i].Mode))
		}
		assert.Equal(t, []string{"lock reading", "upgrade writing", "downgrade reading", "attach reading", "lock reading", "lock reading"}, ops)
		assert.Equal(t, []string{"released reading", "released writing", "detached reading", "released reading", "detached reading", "released reading"}, ends)
	})
}

// An Upgrade that ends with the lease that it is made from was not canceled by anybody: it is
// told as what it returns, and counts among the calls that fail.
func TestObserverIsToldOfAnUpgradeWhoseReaderIsLost(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, f *fakeDeployment, reading *Lease){
		"lost":     func(_ *testing.T, f *fakeDeployment, _ *Lease) { f.hang() },
		"released": func(t *testing.T, _ *fakeDeployment, reading *Lease) { assert.NoError(t, reading.Unlock(t.Context())) },
	} {
		t.Run(name, func(t *testing.T) {
			observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
				reading, err := c.Mutex("k", ForReading()).Lock(t.Context())
				require.NoError(t, err)
				other, err := f.client(t).Mutex("k", ForReading()).Lock(t.Context())
				require.NoError(t, err)
				ended := make(chan error)
				go func() {
					_, err := reading.Upgrade(t.Context())
					ended <- err
				}()
				synctest.Wait()
				end(t, f, reading)
				err = <-ended
				e := s.locks[len(s.locks)-1]
				assert.Equal(t, "upgrade", e.Op)
				assert.Equal(t, err, e.Err)
				assert.Equal(t, "absent", e.Outcome())
				f.heal()
				_ = other.Unlock(t.Context())
			})
		})
	}
}

// So is a change of a lease that is over by the time of the call, or turns out to be so at its end.
func TestObserverIsToldOfAChangeThatComesTooLate(t *testing.T) {
	for name, gone := range map[string]func(f *fakeDeployment, lease *Lease){
		"known": func(f *fakeDeployment, lease *Lease) {
			f.hang()
			<-lease.Context().Done()
			f.heal()
		},
		"unnoticed": func(f *fakeDeployment, _ *Lease) { f.Del("k") },
	} {
		for op, change := range map[string]struct {
			from Option
			call func(*Lease, context.Context) (*Lease, error)
		}{
			"upgrade":   {ForReading(), (*Lease).Upgrade},
			"downgrade": {ForWriting(), (*Lease).Downgrade},
		} {
			t.Run(op+", "+name, func(t *testing.T) {
				observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
					lease, err := c.Mutex("k", change.from).Lock(t.Context())
					require.NoError(t, err)
					gone(f, lease)
					_, err = change.call(lease, t.Context())
					require.ErrorIs(t, err, ErrLost)
					synctest.Wait()
					require.Len(t, s.locks, 2)
					assert.Equal(t, op, s.locks[1].Op)
					assert.Equal(t, err, s.locks[1].Err)
					assert.Equal(t, "absent", s.locks[1].Outcome())
					assert.Len(t, s.holds, 1, "of the lease that was to be changed")
				})
			})
		}
	}
}

func TestObserverIsToldOfRenewals(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		ttl := 10 * time.Second
		lease, err := c.Mutex("k", TTL(ttl)).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { time.Sleep(time.Millisecond); return nil }
		})
		time.Sleep(ttl/3 + 2*time.Millisecond)
		synctest.Wait()
		require.NotEmpty(t, s.renewals)
		first := s.renewals[0]
		assert.Equal(t, time.Millisecond, first.Took)
		assert.Equal(t, LockInfo{Name: "k", Mode: Exclusive, TTL: ttl}, first.LockInfo)
		assert.NoError(t, first.Err)
		assert.Zero(t, first.Late)
		assert.GreaterOrEqual(t, first.Left, ttl*2/3-margin(ttl))
		n := len(s.renewals)

		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		<-lease.Context().Done()
		synctest.Wait()
		failed := s.renewals[n:]
		require.NotEmpty(t, failed)
		for i, e := range failed {
			assert.ErrorIs(t, e.Err, errLostReply)
			if i > 0 {
				assert.GreaterOrEqual(t, e.Late, failed[i-1].Late)
				assert.Less(t, e.Left, failed[i-1].Left)
			}
		}
		assert.Greater(t, failed[len(failed)-1].Late, ttl/3) // the first ones may have been early
		require.Len(t, s.holds, 1)
		assert.Equal(t, "lost_deadline", s.holds[0].Outcome())
		assert.ErrorIs(t, s.holds[0].Lost, errLostReply)
		assert.Zero(t, s.holds[0].Left)
		f.set(func() { f.before = nil })
		lease.Unlock(t.Context())
		assert.Len(t, s.holds, 1, "once")
	})
}

// A renewal that is answered while Unlock waits for it is about no lease any more.
func TestObserverIsToldOfNoRenewalAfterTheEnd(t *testing.T) {
	for name, reply := range map[string]error{"answered": nil, "lost": errLostReply} {
		t.Run(name, func(t *testing.T) {
			observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
				lease := must(t, c.Mutex("k"))
				asked, answer := make(chan struct{}), make(chan struct{})
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if !mutexFamily.renew.runs(cmd) {
							return nil
						}
						close(asked)
						<-answer
						return reply
					}
				})
				<-asked
				unlocked := make(chan error, 1)
				go func() { unlocked <- lease.Unlock(t.Context()) }()
				synctest.Wait()
				close(answer)
				require.NoError(t, <-unlocked)
				synctest.Wait()
				assert.Empty(t, s.renewals)
				assert.Len(t, s.holds, 1)
			})
		})
	}
}

// How late a renewal is does not depend on what Extend has asked for beside it.
func TestRenewalsBesideAnExtendAreNotLater(t *testing.T) {
	const ttl = 10 * time.Second
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		lease := must(t, c.Mutex("k", TTL(ttl)))
		require.NoError(t, lease.Extend(t.Context(), MinTTL))
		f.set(func() { f.before = refusesScript(mutexFamily.renew, errLostReply) })
		<-lease.Context().Done()
		synctest.Wait()
		require.NotEmpty(t, s.renewals)
		assert.Greater(t, s.renewals[len(s.renewals)-1].Late, ttl/2)
	})
	observe(t, func(t *testing.T, _ *fakeDeployment, c *Client, s *seen) {
		require.NoError(t, must(t, c.Mutex("k", TTL(ttl))).Extend(t.Context(), time.Minute))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		require.NotEmpty(t, s.renewals)
		for _, r := range s.renewals {
			require.Zero(t, r.Late)
		}
	})
}

// Who has waited is given the lock for as long as its place in the queue lasts, and renews it in a
// third of that. That is how it is to be, and no margin that has become small.
func TestTheFirstRenewalAfterAWaitIsNotLate(t *testing.T) {
	for _, ttl := range []time.Duration{DefaultTTL, time.Hour} {
		s := &seen{}
		logged(t, slog.LevelWarn, func(t *testing.T, f *fakeDeployment, c *Client, records func() []map[string]any) {
			held := f.hold(t)
			got := background(t, c.Mutex("k", TTL(ttl)))
			time.Sleep(time.Minute)
			handOver(t, held, got)
			time.Sleep(ttl)
			synctest.Wait()
			require.Greater(t, len(s.renewals), 2)
			for _, r := range s.renewals {
				assert.Greater(t, r.Left, r.TTL/3)
			}
			assert.Less(t, s.renewals[0].TTL, 5*time.Second)
			assert.Equal(t, ttl, s.renewals[1].TTL)
			assert.Empty(t, records())
		}, s.observer())
	}
}

func TestObserverIsToldTheCauseOfALoss(t *testing.T) {
	for outcome, lose := range map[string]func(f *fakeDeployment, c *Client){
		"lost_absent": func(f *fakeDeployment, _ *Client) { f.Del("k") },
		"lost_taken":  func(f *fakeDeployment, _ *Client) { f.Set("k", "somebody else's") },
		"max_hold":    func(*fakeDeployment, *Client) {},
		"closed":      func(_ *fakeDeployment, c *Client) { c.Close() },
	} {
		t.Run(outcome, func(t *testing.T) {
			observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
				lease, err := c.Mutex("k", MaxHold(time.Minute)).Lock(t.Context())
				require.NoError(t, err)
				lose(f, c)
				<-lease.Context().Done()
				synctest.Wait()
				require.Len(t, s.holds, 1)
				assert.Equal(t, outcome, s.holds[0].Outcome())
				lease.Unlock(t.Context())
				assert.Len(t, s.holds, 1)
			})
		})
	}
}

func TestObserverIsToldOfAReleaseWithoutEffect(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.Del("k")
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
		lease, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(mutexFamily.release, errLostReply) })
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		f.set(func() { f.before = nil })
		require.Len(t, s.holds, 2)
		assert.Equal(t, []string{"expired", "unconfirmed"}, []string{s.holds[0].Outcome(), s.holds[1].Outcome()})
		assert.Positive(t, s.holds[1].Release)
	})
}

// Of two calls at the same time the one that releases tells what has become of it, however
// long the other waits.
func TestObserverIsToldByTheUnlockThatReleases(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { time.Sleep(100 * time.Millisecond); return nil }
		})
		first := make(chan error, 1)
		go func() { first <- lease.Unlock(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		assert.ErrorIs(t, lease.Unlock(ctx), ErrUnknown)
		require.NoError(t, <-first)
		require.Len(t, s.holds, 1)
		assert.Equal(t, "released", s.holds[0].Outcome())
		assert.Equal(t, 100*time.Millisecond, s.holds[0].Release)
	})
}

// An Unlock that comes before Detach has told of the detachment, as of who gives a lease up when its context ends, leaves
// it to tell.
func TestObserverIsToldOfADetachmentBesideAnUnlock(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		lease := must(t, c.Mutex("k"))
		_, detached, err := lease.detach()
		require.NoError(t, err)
		require.True(t, detached)
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrReleased)
		lease.tellEnd(givenUp{detached: true})
		require.Len(t, s.holds, 1)
		assert.Equal(t, "detached", s.holds[0].Outcome())
	})
}

func TestObserverIsToldOfHealing(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		_, err := f.client(t).Mutex("k", NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		f.do(t, "PERSIST", "k")
		_, err = c.Mutex("k", TTL(time.Minute)).TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		synctest.Wait()
		assert.Equal(t, []Healed{{Name: "k", For: time.Minute}}, s.healings)
	})
}

func TestObserverIsToldOfTheSubscription(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		got := background(t, c.Mutex("k"))
		synctest.Wait()
		assert.Equal(t, []Subscription{{Listening: true}}, s.subscriptions)
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, granted(got))
		require.NoError(t, c.Close())
		assert.Len(t, s.subscriptions, 1, "that it ends with the client is no news")
	})
}

// A scriptedSubscription is told what becomes of it.
type scriptedSubscription struct {
	driver.Subscription
	told chan error
}

func (s scriptedSubscription) Add(context.Context, ...string) error { return nil }
func (s scriptedSubscription) Close() error                         { return nil }

func (s scriptedSubscription) Receive(ctx context.Context) (driver.Message, error) {
	select {
	case err := <-s.told:
		return driver.Message{}, err
	case <-ctx.Done():
		return driver.Message{}, ctx.Err()
	}
}

// A scripted deployment subscribes by that.
type scripted struct {
	*fakeDeployment
	sub scriptedSubscription
}

func (s scripted) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.fakeDeployment.Connect(ctx)
	return scriptedConn{c.(*fakeConn), s.sub}, err
}

type scriptedConn struct {
	*fakeConn
	sub scriptedSubscription
}

func (c scriptedConn) Subscribe(context.Context) (driver.Subscription, error) { return c.sub, nil }

func TestObserverIsToldWhatBecomesOfASubscription(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		s, told := &seen{}, make(chan error)
		c, err := NewQuorum([]driver.Connector{nodes[0], scripted{nodes[1], scriptedSubscription{told: told}}, nodes[2]}, s.observer())
		require.NoError(t, err)
		defer c.Close()
		must(t, nodes.client(t, QuorumConfig{}).Mutex("k"))
		go c.Mutex("k").Lock(t.Context())
		missed := fmt.Errorf("%w: the connection was lost", driver.ErrGap)
		told <- missed
		told <- errLostReply
		time.Sleep(resubscribePause)
		synctest.Wait()
		var ofIt []Subscription
		for _, e := range s.heardOf() {
			if e.Node == 1 {
				ofIt = append(ofIt, e)
			}
		}
		up := Subscription{Node: 1, Listening: true}
		assert.Equal(t, []Subscription{up, {Node: 1, Listening: true, Gap: true, Err: missed}, {Node: 1, Err: errLostReply}, up}, ofIt)
	})
}

// An observer takes its time to hear that the lock was taken.
func TestObserverIsToldOfALossBeforeTheLeaseWasHad(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		s, slow := &seen{}, Observe(Observer{LockEnd: func(context.Context, LockEnd) { time.Sleep(time.Minute) }})
		lease := must(t, f.client(t, s.observer(), slow).Mutex("k", NoRenewal()))
		synctest.Wait()
		assert.ErrorIs(t, lease.Err(), ErrLost)
		require.Len(t, s.holds, 1)
		assert.Equal(t, "lost_deadline", s.holds[0].Outcome())
	})
}

// A context that LockStart returns reaches the driver.
func TestRequestsHaveTheContextOfLockStart(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		reached := false
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() == "SET" {
					_, reached = ctx.Value(startedAt{}).(time.Time)
				}
				return nil
			}
		})
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.True(t, reached)
	})
}

func TestObserverMayUseTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var c *Client
		var held atomic.Int32
		look := func() { held.Store(int32(len(c.Snapshot().Leases))) }
		c = f.client(t, Observe(Observer{
			LockStart: func(ctx context.Context, _ LockStart) context.Context { look(); return nil },
			LockEnd:   func(context.Context, LockEnd) { look() },
			HoldEnd:   func(context.Context, HoldEnd) { look() },
			Renewal:   func(Renewal) { look() },
		}))
		lease, err := c.Mutex("k", TTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, held.Load())
		time.Sleep(time.Second)
		f.Del("k")
		<-lease.Context().Done()
		synctest.Wait()
		assert.Zero(t, held.Load())
	})
}

func TestPanicOfAnObserverLeavesNoLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Observe(Observer{LockEnd: func(context.Context, LockEnd) { panic("oops") }}))
		assert.PanicsWithValue(t, "oops", func() { c.Mutex("k").Lock(t.Context()) })
		synctest.Wait()
		assert.False(t, f.Exists("k"))
		assert.Empty(t, c.Snapshot().Leases)
	})
}

// An observer that blocks costs renewals nothing, nor losses their time.
func TestObserverThatBlocksDoesNotHoldUpRenewals(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		block, told := make(chan struct{}), 0
		c := f.client(t, Observe(Observer{Renewal: func(Renewal) { <-block; told++ }}))
		lease, err := c.Mutex("k", TTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(7 * time.Minute)
		assert.True(t, lease.Valid())
		f.Del("k")
		begun := time.Now()
		<-lease.Context().Done()
		assert.Less(t, time.Since(begun), time.Second)
		synctest.Wait()
		close(block)
		require.NoError(t, c.Close())
		assert.InDelta(t, maxLateRenewals, told, 1, "what waits is bounded")
	})
}

// An observer that ends the goroutine that calls it, as t.FailNow does, costs one event.
func TestObserverThatEndsItsGoroutineIsToldTheRest(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		var told atomic.Int32
		c := f.client(t, Observe(Observer{Renewal: func(Renewal) { told.Add(1); runtime.Goexit() }}))
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.Greater(t, told.Load(), int32(1))
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
	})
}

func TestCloseTellsTheLast(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		s, slow := &seen{}, Observe(Observer{HoldEnd: func(context.Context, HoldEnd) { time.Sleep(time.Second) }})
		c := f.client(t, slow, s.observer())
		for _, name := range []string{"a", "b", "c"} {
			_, err := c.Mutex(name).Lock(t.Context())
			require.NoError(t, err)
		}
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Len(t, s.holds, 3)
		assert.Equal(t, 3*time.Second, time.Since(begun), "and waits no longer than for that")
		s.holds = nil
		require.NoError(t, c.Close())
		assert.Empty(t, s.holds)
	})
}

func TestObserversOnAQuorum(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		s := &seen{}
		nodes.established()
		c := nodes.client(t, QuorumConfig{}, s.observer())
		lease, err := c.Mutex("k", TTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.Len(t, s.holds, 1)
		assert.Equal(t, "released", s.holds[0].Outcome())
		assert.NotEmpty(t, s.renewals)
	})
}

// What observes costs nothing where there is nothing to observe.
func TestPairWithoutObserverAllocatesNothingMore(t *testing.T) {
	c, err := New(instant{})
	require.NoError(t, err)
	defer c.Close()
	ctx := t.Context()
	pair := func() {
		lease, err := c.Mutex("orders:42").Lock(ctx)
		if err == nil {
			err = lease.Unlock(context.Background())
		}
		require.NoError(t, err)
	}
	// It was 14 before there were observers. Under the race detector pools forget.
	if allocs := testing.AllocsPerRun(500, pair); !underRace {
		assert.LessOrEqual(t, allocs, 14.0)
	}
}
