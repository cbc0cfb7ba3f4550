package locker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// inLine makes n goroutines want m, one after the other.
func inLine(t *testing.T, m *Mutex, n int) []<-chan *Lease {
	got := make([]<-chan *Lease, n)
	for i := range got {
		got[i] = background(t, m)
	}
	return got
}

// refusesScript makes every call of a script fail.
func refusesScript(s *script, err error) func(context.Context, driver.Command) error {
	return func(_ context.Context, cmd driver.Command) error {
		if len(cmd.Args) > 1 && cmd.Args[1] == s.sha() {
			return err
		}
		return nil
	}
}

// swallows makes a server that does not answer such a command.
func swallows(is func(driver.Command) bool) func(context.Context, driver.Command) error {
	return func(ctx context.Context, cmd driver.Command) error {
		if is(cmd) {
			<-ctx.Done()
		}
		return ctx.Err()
	}
}

func TestLockPassesAlongTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.reset()
		got := inLine(t, m, 3)
		assert.Equal(t, []string{"EVALSHA"}, f.commands(), "whether others wait")
		for _, next := range got {
			f.reset()
			ended := lease.Context()
			assert.Nil(t, granted(next))
			require.NoError(t, lease.Unlock(t.Context()))
			assert.ErrorIs(t, context.Cause(ended), ErrReleased)
			heir := granted(next)
			require.NotNil(t, heir)
			assert.Empty(t, f.commands())
			assert.NoError(t, heir.Err())
			assert.Same(t, lease.tenure, heir.tenure)

			require.NoError(t, lease.Unlock(t.Context()), "again")
			assert.ErrorIs(t, lease.Err(), ErrReleased)
			assert.ErrorIs(t, lease.Extend(t.Context(), time.Minute), ErrReleased)
			_, err := lease.Detach(t.Context(), time.Minute)
			assert.ErrorIs(t, err, ErrReleased)
			assert.NoError(t, heir.Err(), "is not touched")
			lease = heir
		}
		require.NoError(t, lease.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
		assert.Empty(t, m.client.lines.byRecord)
	})
}

// A lock that nobody else of the client wants costs what it did, and leaves no line.
func TestLinesAreForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for _, opt := range []Option{TTL(time.Minute), NoRenewal(), Retry(Constant(time.Second)), Fenced()} {
			lease, err := c.Mutex("k", opt).Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
			assert.Empty(t, c.lines.byRecord)
		}
		require.NoError(t, f.Set("k", "foreign"))
		_, err := c.Mutex("k").Lock(t.Context())
		require.ErrorIs(t, err, ErrForeign)
		assert.Empty(t, c.lines.byRecord)
	})
}

// A lease that is not renewed is good for its own TTL, and so is not that of another which is passed along.
func TestLeaseThatIsNotRenewedIsNotPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, TTL(10*time.Second))
		for _, opts := range [][]Option{nil, {NoRenewal()}} {
			first := granted(background(t, c.Mutex("k", opts...)))
			next := background(t, c.Mutex("k", NoRenewal()))
			require.NoError(t, first.Unlock(t.Context()))
			lease := granted(next)
			require.NotNil(t, lease)
			assert.Equal(t, time.Now().Add(10*time.Second-margin(10*time.Second)), lease.Deadline())
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// Who has a policy of its own asks by that, and does not stand behind another whose policy is slow.
func TestWhoHasAPolicyDoesNotStandInLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		must(t, f.client(t).Mutex("k"))
		c := f.client(t)
		slow := background(t, c.Mutex("k", Unfair(), Retry(Constant(time.Hour))))
		fast := background(t, c.Mutex("k", Unfair(), Retry(Constant(10*time.Millisecond))))
		f.Del("k") // of which nobody hears
		time.Sleep(20 * time.Millisecond)
		lease := granted(fast)
		require.NotNil(t, lease)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Hour)
		assert.NotNil(t, granted(slow))
	})
}

// A request about a lease takes no longer than its own mutex allows, and not what that of who had the lock before does.
func TestLeaseIsNotPassedOnToWhoHasAnotherAttemptTimeout(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := granted(background(t, c.Mutex("k", AttemptTimeout(10*time.Second))))
		next := background(t, c.Mutex("k", AttemptTimeout(100*time.Millisecond)))
		require.NoError(t, lease.Unlock(t.Context()))
		heir := granted(next)
		require.NotNil(t, heir)
		var patience atomic.Int64
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if end, ok := ctx.Deadline(); ok && mutexFamily.renew.runs(cmd) {
					patience.Store(int64(time.Until(end)))
				}
				return nil
			}
		})
		require.NoError(t, heir.Extend(t.Context(), time.Minute))
		assert.Equal(t, 100*time.Millisecond, time.Duration(patience.Load()))
		require.NoError(t, heir.Unlock(t.Context()))
	})
}

func TestTokensGrowAlongTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		a, b := f.client(t).Mutex("k", Fenced()), f.client(t).Mutex("k", Fenced())
		var last Token
		for range 3 {
			for _, m := range []*Mutex{a, b} {
				lease, err := m.Lock(t.Context())
				require.NoError(t, err)
				got := inLine(t, m, 200)
				for _, next := range got {
					assert.Greater(t, lease.Token(), last)
					last = lease.Token()
					require.NoError(t, lease.Unlock(t.Context()))
					assert.Equal(t, last, lease.Token(), "stays")
					time.Sleep(10 * time.Microsecond)
					lease = granted(next)
					require.NotNil(t, lease)
				}
				require.NoError(t, lease.Unlock(t.Context()))
				last = lease.Token()
			}
		}
		now := Token(time.Now().UnixMicro())
		assert.LessOrEqual(t, last, now+tokensAhead, "tokens keep to the server's clock")
	})
}

// The tokens of a lock that is passed along run ahead of the clock. A server that loses its data, or the last
// token alone, grants none that is smaller the moment after.
func TestTokensGrowAcrossALossOfTheLastThatRanAhead(t *testing.T) {
	grants := map[string]func(t *testing.T, f *fakeDeployment, m *Mutex, held *Lease) *Lease{
		"to whoever comes": func(t *testing.T, f *fakeDeployment, m *Mutex, _ *Lease) *Lease {
			f.FlushAll()
			return must(t, m)
		},
		"to an owner who comes": func(t *testing.T, f *fakeDeployment, m *Mutex, _ *Lease) *Lease {
			f.FlushAll()
			return must(t, m.inMode(modeReentrant))
		},
		"to who waits": func(t *testing.T, f *fakeDeployment, m *Mutex, held *Lease) *Lease {
			next := background(t, m)
			f.Del(m.keys.fence)
			require.NoError(t, held.Unlock(t.Context()))
			synctest.Wait()
			return granted(next)
		},
		"to who takes it up": func(t *testing.T, f *fakeDeployment, m *Mutex, held *Lease) *Lease {
			id, err := held.Detach(t.Context(), time.Minute)
			require.NoError(t, err)
			f.Del(m.keys.fence)
			taken, err := m.Attach(t.Context(), id)
			require.NoError(t, err)
			return taken
		},
	}
	for what, grant := range grants {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k", Fenced())
				lease := must(t, m)
				for _, next := range inLine(t, m, 3) {
					require.NoError(t, lease.Unlock(t.Context()))
					lease = granted(next)
					require.NotNil(t, lease)
				}
				require.NoError(t, lease.Unlock(t.Context()))
				last := must(t, f.client(t).Mutex("k", Fenced()))
				time.Sleep(time.Millisecond)
				after := grant(t, f, f.client(t).Mutex("k", Fenced()), last)
				require.NotNil(t, after)
				assert.Greater(t, after.Token(), last.Token())
			})
		})
	}
}

// lockEnds locks m in the background, and sends what came of it.
func lockEnds(ctx context.Context, m *Mutex) <-chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := m.Lock(ctx)
		ended <- err
	}()
	return ended
}

// A token that runs short is asked for before the lock is handed out.
func TestPassedLeaseWaitsForItsToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		next := background(t, m)
		require.NoError(t, lease.Unlock(t.Context()))
		require.Nil(t, granted(next))
		time.Sleep(500 * time.Millisecond)
		require.Nil(t, granted(next))
		f.set(func() { f.before = nil })
		time.Sleep(2 * time.Second)
		heir := granted(next)
		require.NotNil(t, heir)
		assert.Greater(t, heir.Token(), lease.Token())
		assert.Same(t, lease.tenure, heir.tenure)
		assert.Zero(t, m.client.calls, "none is in progress any more")
	})
}

// Whoever is passed on a lease that is lost before its token is there goes on waiting, and is
// not one call too many because it waits already.
func TestPassedLeaseLostBeforeItsTokenIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t, MaxWaiters(1)).Mutex("k", Fenced())
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		got := lockEnds(t.Context(), m)
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		synctest.Wait()
		_, err = f.client(t).ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		other := must(t, f.client(t).Mutex("k", Fenced(), NoRenewal()))
		time.Sleep(DefaultTTL / 2)
		f.set(func() { f.before = nil })
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, <-got)
		assert.Zero(t, m.client.waiterLimit.waiting.Load())
	})
}

// And who gives up then is told how long it has waited from the beginning.
func TestWaitOfWhoWasPassedALeaseThatWasLostCountsFromTheBeginning(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m, other := f.client(t).Mutex("k", Fenced()), f.client(t).Mutex("k", Fenced())
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		begun := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		got := lockEnds(ctx, m)
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		synctest.Wait()
		_, err = other.client.ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		must(t, other)
		time.Sleep(5 * time.Minute)
		f.set(func() { f.before = nil })
		waiting := m.client.Snapshot().Waiters
		require.Len(t, waiting, 1)
		assert.Equal(t, begun, waiting[0].Since)
		err = <-got
		wait, ok := errors.AsType[*WaitError](err)
		require.True(t, ok, "%v", err)
		assert.GreaterOrEqual(t, wait.waited, 10*time.Minute)
	})
}

// Close waits for who gives back a lease that it has not got a token for, or releases it
// itself.
func TestCloseWhileATokenIsAskedFor(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c, err := New(f)
			require.NoError(t, err)
			m := c.Mutex("k", Fenced())
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
			ended := lockEnds(t.Context(), m)
			synctest.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			synctest.Wait()
			assert.NoError(t, c.Close())
			assert.ErrorIs(t, <-ended, ErrClosed)
			assert.False(t, f.Exists("k"))
		})
	}
}

func TestCancelledWhileItsTokenIsAskedForGivesTheLockOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		ctx, cancel := context.WithCancel(t.Context())
		ended := lockEnds(ctx, m)
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		cancel()
		assert.ErrorIs(t, <-ended, context.Canceled)
		synctest.Wait()
		assert.False(t, f.Exists("k"))
		assert.Zero(t, m.client.waiterLimit.waiting.Load(), "counted as waiting")
	})
}

// A server that hangs keeps nobody who gives up then.
func TestCancelledWhileItsTokenIsAskedForWaitsForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		lease := granted(background(t, m))
		f.hang()
		ended := lockEnds(within(t, time.Second), m)
		synctest.Wait()
		begun := time.Now()
		require.NoError(t, lease.Unlock(t.Context()))
		assert.ErrorIs(t, <-ended, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begun))
		f.heal()
		time.Sleep(cleanupPause)
		assert.False(t, f.Exists("k"))
	})
}

// A server that refuses to reserve tokens says so to who wants one.
func TestRefusalOfTokens(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(turnScript, driver.NewServerError("OOM command not allowed")) })
		failed := lockEnds(t.Context(), m)
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		refusal, ok := errors.AsType[*driver.ServerError](<-failed)
		require.True(t, ok)
		assert.Equal(t, "OOM", refusal.Code)
		synctest.Wait()
		assert.False(t, f.Exists("k"))
	})
}

// While goroutines of one client pass a lock along, another client has it soon.
func TestOthersHaveTheirTurn(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			ctx, cancel := context.WithCancel(t.Context())
			m, other := f.client(t).Mutex("k", opts...), f.client(t).Mutex("k", opts...)
			var passes, inside atomic.Int32
			var wg sync.WaitGroup
			for range 8 {
				wg.Go(func() {
					for ctx.Err() == nil {
						err := m.Do(ctx, func(context.Context) error {
							assert.EqualValues(t, 1, inside.Add(1))
							passes.Add(1)
							time.Sleep(100 * time.Microsecond)
							inside.Add(-1)
							return nil
						})
						assert.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
					}
				})
			}
			for range 10 {
				time.Sleep(50 * time.Millisecond)
				begun := time.Now()
				lease, err := other.Lock(t.Context())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(begun), askEvery+turnTime+time.Millisecond)
				assert.EqualValues(t, 1, inside.Add(1))
				time.Sleep(100 * time.Microsecond)
				inside.Add(-1)
				require.NoError(t, lease.Unlock(t.Context()))
			}
			cancel()
			wg.Wait()
			assert.Greater(t, passes.Load(), int32(4000))
			time.Sleep(time.Second)
			assert.False(t, f.Exists("k"))
		})
	}
}

// A server that is far away does not end the passing by that.
func TestPassingGoesOnUntilAFarServerAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { time.Sleep(50 * time.Millisecond); return nil }
		})
		got := inLine(t, m, 100)
		for _, next := range got {
			time.Sleep(time.Millisecond)
			require.NoError(t, lease.Unlock(t.Context()))
			heir := granted(next)
			require.NotNil(t, heir)
			assert.Same(t, lease.tenure, heir.tenure)
			lease = heir
		}
	})
}

// Who holds a lock for long gives it back to the server, where order is kept of all who wait,
// also of those of its own client.
func TestLongHoldsGoByTheServer(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m, other := f.client(t).Mutex("k", opts...), f.client(t).Mutex("k", opts...)
				lease := granted(background(t, m))
				var order []<-chan *Lease
				for range 3 {
					order = append(order, background(t, m))
					time.Sleep(2 * hearTime)
					order = append(order, background(t, other))
					time.Sleep(time.Second)
				}
				s, err := m.client.Inspect(t.Context(), "k")
				require.NoError(t, err)
				assert.Equal(t, 2, s.Waiters, "one of each client")
				for i, next := range order {
					require.NoError(t, lease.Unlock(t.Context()))
					lease = granted(next)
					require.NotNil(t, lease, "number %d", i)
					time.Sleep(time.Second)
				}
				require.NoError(t, lease.Unlock(t.Context()))
				assert.False(t, f.Exists("k"))
				assert.Empty(t, m.client.lines.byRecord)
			})
		})
	}
}

// It is not later for that where no message tells who waits.
func TestLongHoldsArePassedOnAtOnceWithoutMessages(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.noPubSub = true
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		order := inLine(t, m, 5)
		for i, next := range order {
			time.Sleep(time.Second)
			require.NoError(t, lease.Unlock(t.Context()))
			lease = granted(next)
			require.NotNil(t, lease, "number %d", i)
		}
	})
}

// One release asks nobody to look but who leads a line: of hundreds that wait by themselves all but one
// would ask in vain.
func TestAReleaseWithoutMessagesIsNoStampede(t *testing.T) {
	withoutRaceDetector(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.noPubSub = true
		c := f.client(t)
		m := c.Mutex("k")
		lease := granted(background(t, m))
		next := background(t, m)
		time.Sleep(2 * hearTime) // so that it has its place first
		ctx, cancel := context.WithCancel(t.Context())
		const n = 200
		var ends []<-chan error
		for range n / 2 {
			for _, opt := range []Option{NoRenewal(), Retry(Constant(time.Minute))} {
				ends = append(ends, lockEnds(ctx, c.Mutex("k", opt)))
			}
		}
		time.Sleep(5*time.Second + pollInterval/2)
		s, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Equal(t, n+1, s.Waiters)
		f.reset()
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		assert.Equal(t, []string{"EVALSHA", "EVALSHA"}, f.commands(), "the release, and who leads the line")
		heir := granted(next)
		require.NotNil(t, heir)
		cancel()
		for _, end := range ends {
			assert.ErrorIs(t, <-end, context.Canceled)
		}
		require.NoError(t, heir.Unlock(t.Context()))
	})
}

// Nor does it look when the lock has left this client and is not free.
func TestWhoLeadsWithoutMessagesIsNotWokenForALockThatIsHeld(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, f *fakeDeployment, lease *Lease){
		"detached": func(t *testing.T, _ *fakeDeployment, lease *Lease) {
			_, err := lease.Detach(t.Context(), time.Minute)
			require.NoError(t, err)
		},
		"taken": func(t *testing.T, f *fakeDeployment, lease *Lease) {
			require.NoError(t, f.Set("k", "another"))
			f.SetTTL("k", time.Minute)
			require.ErrorIs(t, lease.Extend(t.Context(), time.Minute), ErrTaken)
		},
		"taken before Unlock": func(t *testing.T, f *fakeDeployment, lease *Lease) {
			require.NoError(t, f.Set("k", "another"))
			f.SetTTL("k", time.Minute)
			require.ErrorIs(t, lease.Unlock(t.Context()), ErrTaken)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				f.noPubSub = true
				m := f.client(t).Mutex("k")
				lease := granted(background(t, m))
				ended := lockEnds(within(t, 10*time.Second), m)
				time.Sleep(5*time.Second + pollInterval/2)
				asked := f.acquires()
				end(t, f, lease)
				synctest.Wait()
				assert.Zero(t, asked.Load())
				assert.ErrorIs(t, <-ended, ErrLocked)
			})
		})
	}
}

// Who waits at the server for a line, and gives up, leaves the lock to be passed on once more.
func TestWhoGivesUpBehindALongHoldLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		for range 3 {
			gaveUp := lockEnds(within(t, time.Second), m)
			assert.ErrorIs(t, <-gaveUp, ErrLocked)
			synctest.Wait()
			assert.Zero(t, f.waiters(t, m))
		}
		leaves, next := lockEnds(within(t, time.Second), m), background(t, m)
		assert.ErrorIs(t, <-leaves, ErrLocked)
		synctest.Wait()
		assert.Equal(t, 1, f.waiters(t, m), "who comes next has the place")
		require.NoError(t, lease.Unlock(t.Context()))
		lease = granted(next)
		require.NotNil(t, lease)
		require.NoError(t, lease.Unlock(t.Context()))
		assert.Empty(t, m.client.lines.byRecord)
	})
}

// A lock that was held by this client while one waited is no outage, though the server had not been
// asked who holds it then.
func TestWaitBehindTheOwnClientIsNoOutage(t *testing.T) {
	const trip = 10 * time.Millisecond // there and back
	for name, opts := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}} {
		for _, hold := range []time.Duration{time.Millisecond, 5 * time.Millisecond, 15 * time.Millisecond, 85 * time.Millisecond} {
			t.Run(name+", held for "+hold.String(), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					m, other := f.client(t).Mutex("k", opts...), f.client(t).Mutex("k", opts...)
					lease := granted(background(t, m))
					theirs := background(t, other)
					f.set(func() {
						f.before = func(context.Context, driver.Command) error { time.Sleep(trip / 2); return nil }
						f.after = f.before
					})
					var ends []<-chan error
					for left := trip + time.Millisecond; left < hold+3*trip; left += time.Millisecond {
						end, ctx := make(chan error, 1), within(t, left)
						go func() { end <- m.Do(ctx, func(context.Context) error { return nil }) }()
						ends = append(ends, end)
						synctest.Wait()
					}
					time.Sleep(hold)
					require.NoError(t, lease.Unlock(t.Context()))
					for i, end := range ends {
						assert.NotErrorIs(t, <-end, ErrUnavailable, "within %v", trip+time.Duration(i+1)*time.Millisecond)
					}
					f.heal()
					require.NoError(t, (<-theirs).Unlock(t.Context()))
				})
			})
		}
	}
}

func TestPlaceAtTheServerIsTheLinesOwn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t, Label("stranger")).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		m := f.client(t).Mutex("k")
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 2)
		for range 2 { // the leader, and who would come after it
			go func() {
				_, err := m.Lock(ctx)
				left <- err
			}()
			synctest.Wait()
		}
		mine := inLine(t, m, 2)
		theirs := background(t, f.client(t).Mutex("k"))
		s, err := m.client.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, 2, s.Waiters, "one for all of a client")

		cancel()
		for range 2 {
			err := <-left
			assert.ErrorIs(t, err, context.Canceled)
			locked, ok := errors.AsType[*LockedError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "stranger", locked.Holder.Label)
		}
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		assert.Nil(t, granted(theirs))
		for _, next := range mine {
			lease := granted(next)
			require.NotNil(t, lease, "it kept the place")
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assert.NotNil(t, granted(theirs))
	})
}

func TestWaitersInLineLeaveNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				_, err := c.Mutex("k").Lock(ctx)
				assert.ErrorIs(t, err, context.Canceled)
			})
		}
		synctest.Wait()
		f.reset()
		time.Sleep(10 * time.Second)
		assert.LessOrEqual(t, len(f.commands()), 20, "one asks for all")
		cancel()
		wg.Wait()
		synctest.Wait()
		s, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Zero(t, s.Waiters)
		assert.Empty(t, c.lines.byRecord)
		require.NoError(t, held.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}

func TestWaiterInLineTellsWhoHolds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"))
		held, err := c.Mutex("k", Metadata("job")).Lock(t.Context())
		require.NoError(t, err)
		waits := c.Mutex("k", Metadata("job"), WaitTimeout(time.Second))
		told := func(err error) Holder {
			assert.ErrorIs(t, err, ErrWaitTimeout)
			locked, ok := errors.AsType[*LockedError](err)
			require.True(t, ok, "%v", err)
			return locked.Holder
		}
		atServer, inLine := lockEnds(t.Context(), waits), lockEnds(t.Context(), waits)
		first, second := told(<-atServer), told(<-inLine)
		want := Holder{Mode: Exclusive, Holds: 1, Label: "me", Metadata: "job", Remaining: DefaultTTL - time.Second, leases: fingerprint(held.tenure.id)}
		for _, got := range []Holder{first, second} {
			assert.InDelta(t, want.Remaining, got.Remaining, float64(time.Second), "as of when the server was asked last")
			got.Remaining = want.Remaining
			assert.Equal(t, want, got)
		}
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// Who has its answer has heard the server, however long ago that was.
func TestLineWhoseLeaderHasItsAnswerIsNotUnheard(t *testing.T) {
	ln := &line{lines: &lines{}, mutex: (&fakeDeployment{}).client(t).Mutex("k", AttemptTimeout(time.Millisecond))}
	begun := time.Now()
	assert.False(t, ln.unheard(begun), "nobody has asked")
	ln.asks(begun.Add(-time.Second))
	assert.True(t, ln.unheard(begun))
	ln.note(ErrLocked)
	assert.False(t, ln.unheard(begun))
}

// The loss of a tenure reaches who holds it now, and those behind ask the server.
func TestLossWhileTheLockIsPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		got := inLine(t, m, 3)
		require.NoError(t, first.Unlock(t.Context()))
		second := granted(got[0])
		require.NotNil(t, second)
		_, err = f.client(t).ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		assert.NoError(t, second.Err(), "not known yet")
		time.Sleep(askEvery)
		require.NoError(t, second.Unlock(t.Context()))
		third := granted(got[1])
		require.NotNil(t, third)
		assert.ErrorIs(t, third.Err(), ErrAbsent, "the server said so when it was asked whether others wait")
		assert.NoError(t, first.Unlock(t.Context()), "its time was over before")
		assert.ErrorIs(t, third.Unlock(t.Context()), ErrAbsent)
		fourth := granted(got[2])
		require.NotNil(t, fourth)
		assert.NoError(t, fourth.Err())
		assert.NotSame(t, third.tenure, fourth.tenure)
		assert.Greater(t, fourth.Token(), third.Token())
	})
}

// Where renewals fail the lock is given back while it lasts.
func TestLateRenewalEndsThePassing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(3*time.Second))
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.set(func() { f.before = refusesScript(mutexFamily.renew, driver.NotSent(errors.New("no route"))) })
		time.Sleep(1900 * time.Millisecond)
		next := background(t, m)
		require.NoError(t, lease.Unlock(t.Context()))
		heir := granted(next)
		require.NotNil(t, heir)
		assert.NotSame(t, lease.tenure, heir.tenure)
		assert.Greater(t, time.Until(heir.Deadline()), 2*time.Second)
	})
}

// Nobody inherits a lease that was extended for long.
func TestExtendedLeaseIsNotPassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(3*time.Second))
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Extend(t.Context(), time.Hour))
		next := background(t, m)
		require.NoError(t, lease.Unlock(t.Context()))
		heir := granted(next)
		require.NotNil(t, heir)
		assert.LessOrEqual(t, f.TTL("k"), 3*time.Second)
	})
}

func TestPassedLeaseIsRenewedAndHasItsOwnMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, TTL(time.Second))
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		bounded := background(t, c.Mutex("k", MaxHold(20*time.Second)))
		last := background(t, c.Mutex("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		heir := granted(bounded)
		require.NotNil(t, heir)
		time.Sleep(20*time.Second - time.Millisecond)
		assert.NoError(t, heir.Err())
		time.Sleep(time.Millisecond)
		assert.ErrorIs(t, heir.Err(), ErrMaxHold)
		time.Sleep(time.Minute)
		lease = granted(last)
		require.NotNil(t, lease, "it asked the server")
		assert.NotSame(t, heir.tenure, lease.tenure)
		time.Sleep(time.Minute)
		assert.NoError(t, lease.Err())
	})
}

func TestCloseEndsTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		const n = 5
		failed := make(chan error, n)
		for range n {
			go func() {
				_, err := c.Mutex("k").Lock(t.Context())
				failed <- err
			}()
		}
		synctest.Wait()
		require.NoError(t, c.Close())
		for range n {
			err := <-failed
			assert.ErrorIs(t, err, ErrClosed)
			assert.ErrorIs(t, err, ErrLocked)
		}
		assert.ErrorIs(t, lease.Err(), ErrClosed)
		assert.False(t, f.Exists("k"))
		for range 2 {
			_, err = c.Mutex("k").Lock(t.Context())
			assert.ErrorIs(t, err, ErrClosed)
		}
	})
}

// Nobody gets into the line of a client that closes, to be passed a lease of it, while that waits for another release.
func TestNobodyStandsInLineOfAClientThatCloses(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("k")
		lease, other := granted(background(t, m)), must(t, c.Mutex("other"))
		f.set(func() { f.before = swallows(mutexFamily.release.runs) })
		unlocked := make(chan error, 1)
		go func() { unlocked <- other.Unlock(t.Context()) }()
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- c.Close() }()
		synctest.Wait()
		require.NoError(t, lease.Err(), "is held still")
		begun := time.Now()
		assert.ErrorIs(t, <-lockEnds(t.Context(), m), ErrClosed)
		assert.Equal(t, begun, time.Now(), "at once")
		f.heal()
		require.NoError(t, <-unlocked)
		require.NoError(t, <-closed)
	})
}

func TestDetachAfterPassing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		first, err := m.Lock(t.Context())
		require.NoError(t, err)
		got := inLine(t, m, 2)
		require.NoError(t, first.Unlock(t.Context()))
		second := granted(got[0])
		require.NotNil(t, second)
		id, err := second.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		assert.Nil(t, granted(got[1]), "the lock is still held, by nobody yet")
		taken, err := f.client(t).Mutex("k", Fenced()).Attach(t.Context(), id)
		require.NoError(t, err)
		assert.Greater(t, taken.Token(), second.Token())
		assert.NoError(t, first.Unlock(t.Context()))
		assert.ErrorIs(t, first.Extend(t.Context(), time.Hour), ErrReleased)
		assert.ErrorIs(t, second.Unlock(t.Context()), ErrReleased)
		assert.NoError(t, taken.Err())
		require.NoError(t, taken.Unlock(t.Context()))
		third := granted(got[1])
		require.NotNil(t, third)
		assert.Greater(t, third.Token(), taken.Token())
	})
}

// What waiting cannot mend is said to all who stand in line.
func TestRefusalReachesTheWholeLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t)
		const n = 4
		failed := make(chan error, n)
		for range n {
			go func() {
				_, err := c.Mutex("k").Lock(t.Context())
				failed <- err
			}()
		}
		synctest.Wait()
		var asked atomic.Int32
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if !mutexFamily.acquire.runs(cmd) {
					return nil
				}
				asked.Add(1)
				return driver.NewServerError("NOPERM no")
			}
		})
		for range n {
			refusal, ok := errors.AsType[*driver.ServerError](<-failed)
			require.True(t, ok)
			assert.Equal(t, "NOPERM", refusal.Code)
		}
		assert.EqualValues(t, 1, asked.Load(), "for all of them")
		assert.Empty(t, c.lines.byRecord)
	})
}

func TestOutageIsWaitedOutInLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", TTL(2*time.Second))
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		got := inLine(t, m, 3)
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		time.Sleep(20 * time.Second)
		assert.ErrorIs(t, lease.Err(), ErrLost)
		f.set(func() { f.before = nil })
		time.Sleep(5 * time.Second)
		for _, next := range got {
			heir := granted(next)
			require.NotNil(t, heir)
			require.NoError(t, heir.Unlock(t.Context()))
		}
	})
}

func TestTryLockDoesNotOvertakeTheLine(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t, Label("stranger")).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		m := f.client(t, Label("me")).Mutex("k", Metadata("job|7"))
		holder := func() string {
			_, err := m.TryLock(t.Context())
			locked, ok := errors.AsType[*LockedError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, "k", locked.Name)
			assert.Equal(t, Exclusive, locked.Holder.Mode)
			return locked.Holder.Label + " " + locked.Holder.Metadata
		}
		got := inLine(t, m, 2)
		assert.Equal(t, "stranger ", holder())
		f.Del("k") // unnoticed by those who wait
		assert.Equal(t, "me job|7", holder())
		time.Sleep(pollInterval)
		lease := granted(got[0])
		require.NotNil(t, lease)
		assert.Equal(t, "me job|7", holder())
		require.NoError(t, lease.Unlock(t.Context()))
		require.NotNil(t, granted(got[1]))
		assert.ErrorIs(t, held.Unlock(t.Context()), ErrTaken)
	})
}

// Nor while the lock goes back to the server, where it is free before those who stand in line hear of that.
func TestTryLockDoesNotOvertakeTheLineDuringARelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		require.NoError(t, lease.Extend(t.Context(), time.Hour), "so that it is not passed on")
		next := background(t, m)
		answer := make(chan struct{})
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if mutexFamily.release.runs(cmd) {
					<-answer
				}
				return nil
			}
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- lease.Unlock(t.Context()) }()
		synctest.Wait()
		require.False(t, f.Exists("k"))
		_, err := m.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		close(answer)
		require.NoError(t, <-unlocked)
		assert.NotNil(t, granted(next))
	})
}

// Where nobody stands in line a TryLock asks the server, which may have lost the lock that is held here.
func TestTryLockWithoutALineAsksTheServer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lost := granted(background(t, m))
		f.Del("k")
		lease := must(t, m)
		assert.ErrorIs(t, lost.Unlock(t.Context()), ErrTaken)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// What cannot be asked is not said.
func TestTryLockBesideALineThatIsRefusedSaysSo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, m := must(t, f.client(t).Mutex("k")), f.client(t).Mutex("k")
		next := background(t, m)
		f.set(func() { f.before = refusesScript(inspectScript, driver.NewServerError("NOPERM no")) })
		_, err := m.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrPermission)
		assert.NotErrorIs(t, err, ErrLocked)
		_, waited := errors.AsType[*WaitError](err)
		assert.False(t, waited, "%v", err)
		f.heal()
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, granted(next))
	})
}

// Cancelling races passing: no lock is lost between the two.
func TestCancelRacesPassing(t *testing.T) {
	for _, opt := range []Option{TTL(time.Minute), Fenced()} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			var clients []*Client
			var inside atomic.Int32
			var wg sync.WaitGroup
			var last Token
			for i := range 2 {
				c := f.client(t)
				clients = append(clients, c)
				for j := range 8 {
					wg.Go(func() {
						for n := range 60 {
							ctx, cancel := context.WithTimeout(t.Context(), time.Duration((i+3*j+5*n)%11)*100*time.Microsecond)
							lease, err := c.Mutex("k", opt).Lock(ctx)
							if err == nil {
								assert.EqualValues(t, 1, inside.Add(1))
								assert.GreaterOrEqual(t, lease.Token(), last)
								last = lease.Token()
								time.Sleep(time.Duration(n%3) * 100 * time.Microsecond)
								inside.Add(-1)
								err = lease.Unlock(t.Context())
								assert.NoError(t, err)
							} else {
								assert.ErrorIs(t, err, context.DeadlineExceeded)
							}
							cancel()
						}
					})
				}
			}
			wg.Wait()
			synctest.Wait()
			assert.False(t, f.Exists("k"))
			for _, c := range clients {
				assert.Empty(t, c.lines.byRecord)
				s, err := c.Inspect(t.Context(), "k")
				require.NoError(t, err)
				assert.Zero(t, s.Waiters)
			}
		})
	}
}

// A driver that panics takes its caller down, and not those who stand behind it.
func TestPanicOfTheLeader(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		m := f.client(t).Mutex("k")
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				f.set(func() { f.before = nil })
				panic("in the driver")
			}
		})
		assert.Panics(t, func() { m.Lock(t.Context()) })
		next := background(t, m)
		require.NoError(t, held.Unlock(t.Context()))
		assert.NotNil(t, granted(next))
	})
}

// Mutexes of one name that differ in what the server is told have lines of their own.
func TestLinesOfOneRecordEndInAnyOrder(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		mutexes := []*Mutex{c.Mutex("k"), c.Mutex("k", TTL(time.Minute)), c.Mutex("k", Fenced()), c.Mutex("k", Metadata("m"))}
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2}} {
			lines := make([]*line, len(mutexes))
			for i, m := range mutexes {
				ln, w, err := c.lines.join(m, time.Now())
				require.NoError(t, err)
				require.Nil(t, w)
				assert.NotContains(t, lines, ln)
				lines[i] = ln
			}
			for _, i := range order {
				assert.True(t, c.lines.waited(mutexes[i]))
				lines[i].resign(nil)
				assert.False(t, c.lines.waited(mutexes[i]))
			}
			assert.Empty(t, c.lines.byRecord)
		}
	})
}
