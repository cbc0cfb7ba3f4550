package locker

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// passAlong passes lease to one goroutine after the other that wants m, as often as it goes without the server
// but no oftener than most, and returns how often that was and who has it then.
func passAlong(t *testing.T, m *Mutex, lease *Lease, most int) (passes int, last *Lease) {
	t.Helper()
	for ; passes < most; passes++ {
		next := background(t, m)
		require.NoError(t, lease.Unlock(t.Context()))
		heir := granted(next)
		if heir == nil {
			break
		}
		require.Same(t, lease.tenure, heir.tenure)
		lease = heir
	}
	return passes, lease
}

// passingEnds checks that lease is not passed along, but goes to the others who wait.
func passingEnds(t *testing.T, m *Mutex, lease *Lease, theirs <-chan *Lease) {
	t.Helper()
	passes, _ := passAlong(t, m, lease, 1)
	assert.Zero(t, passes)
	other := granted(theirs)
	require.NotNil(t, other)
	require.NoError(t, other.Unlock(t.Context()))
	synctest.Wait()
}

// A turn is over after so many passes, too, however little time they take.
func TestTurnOfShortHoldsIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		theirs := background(t, f.client(t).Mutex("k"))
		passes, _ := passAlong(t, m, lease, 2*turnPasses)
		assert.Equal(t, turnPasses, passes)
		other := granted(theirs)
		require.NotNil(t, other)
		require.NoError(t, other.Unlock(t.Context()))
		synctest.Wait()
	})
}

// A server that is asked whether others wait, and hangs, does not keep the lock in one client until the request
// has had its time.
func TestPassingEndsBesideAServerThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		const ttl = 10 * time.Second
		m := f.client(t).Mutex("k", TTL(ttl))
		lease := granted(background(t, m))
		theirs := background(t, f.client(t).Mutex("k"))
		f.set(func() { f.before = swallows(turnScript.runs) })
		passes, lease := passAlong(t, m, lease, 1)
		require.Equal(t, 1, passes)
		time.Sleep(ttl/10 - time.Millisecond)
		passes, lease = passAlong(t, m, lease, 1)
		require.Equal(t, 1, passes)
		time.Sleep(time.Millisecond)
		passingEnds(t, m, lease, theirs)
	})
}

// Nor does it where others are known to wait, and more tokens are asked for.
func TestPassingEndsBesideARequestForTokensThatHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		// The server's clock stands behind the last token, so that each answer is of a few.
		require.NoError(t, f.Set(m.keys.fence, Token(time.Now().Add(time.Hour).UnixMicro()).String()))
		lease := granted(background(t, m))
		theirs := background(t, f.client(t).Mutex("k", Fenced()))
		_, lease = passAlong(t, m, lease, 1)
		require.True(t, lease.tenure.turn.others)
		f.set(func() { f.before = swallows(turnScript.runs) })
		_, lease = passAlong(t, m, lease, fewTokens+1)
		require.NotNil(t, lease.tenure.turn.asking)
		time.Sleep(turnTime)
		passingEnds(t, m, lease, theirs)
	})
}

// Nor does it where the server cannot be asked.
func TestPassingEndsWhereNobodyTellsWhetherOthersWait(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		theirs := background(t, f.client(t).Mutex("k"))
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		passes, lease := passAlong(t, m, lease, 1)
		require.Equal(t, 1, passes)
		time.Sleep(turnTime)
		passingEnds(t, m, lease, theirs)
	})
}

// Who was passed the lock without a token is not kept from it by a request that nobody ever answers: that has
// its time, and then there is another.
func TestTokensAreAskedForAgainWhereARequestHangs(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		lease := granted(background(t, m))
		hung := false
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if turnScript.runs(cmd) && !hung {
					hung = true
					<-ctx.Done()
				}
				return ctx.Err()
			}
		})
		next := background(t, m)
		require.NoError(t, lease.Unlock(t.Context()))
		require.Nil(t, granted(next))
		require.True(t, hung)
		time.Sleep(m.attempt() + time.Second)
		heir := granted(next)
		require.NotNil(t, heir)
		assert.Same(t, lease.tenure, heir.tenure)
		assert.Greater(t, heir.Token(), lease.Token())
		require.NoError(t, heir.Unlock(t.Context()))
		synctest.Wait()
	})
}

// Nor does it wait for one that is not made any more, as the client closes.
func TestNobodyWaitsForATokenOfAClientThatCloses(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		lease := granted(background(t, m))
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		next := lockEnds(t.Context(), m)
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		closing := func(is bool) {
			m.client.mu.Lock()
			defer m.client.mu.Unlock()
			m.client.closing = is
		}
		closing(true) // as Close does, before it ends what waits, and what is held
		assert.ErrorIs(t, <-next, ErrClosed)
		closing(false)
	})
}

// Where others wait already, who is next of this client has its place behind them as soon as the turn is over,
// and not when the answer would be out of date that nobody waits.
func TestPlaceOfWhoIsNextBehindOthersIsTakenWhenTheTurnIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m, other := f.client(t).Mutex("k"), f.client(t).Mutex("k")
		lease := granted(background(t, m))
		theirs := background(t, other)
		next := background(t, m)
		assert.Equal(t, 1, f.waiters(t, m))
		time.Sleep(turnTime)
		synctest.Wait()
		assert.Equal(t, 2, f.waiters(t, m))
		later := background(t, f.client(t).Mutex("k"))
		for _, got := range []<-chan *Lease{theirs, next, later} {
			require.NoError(t, lease.Unlock(t.Context()))
			lease = granted(got)
			require.NotNil(t, lease)
		}
	})
}

// So it is of who comes later still, after one who has given up.
func TestPlaceOfWhoComesAfterTheTurnIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m, other := f.client(t).Mutex("k"), f.client(t).Mutex("k")
		lease := granted(background(t, m))
		theirs := background(t, other)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := lockEnds(ctx, m)
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-gaveUp, context.Canceled)
		time.Sleep(turnTime)
		synctest.Wait()
		assert.Equal(t, 1, f.waiters(t, m))

		next := background(t, m)
		time.Sleep(soonest)
		synctest.Wait()
		assert.Equal(t, 2, f.waiters(t, m))
		for _, got := range []<-chan *Lease{theirs, next} {
			require.NoError(t, lease.Unlock(t.Context()))
			lease = granted(got)
			require.NotNil(t, lease)
		}
	})
}

// So it is where the lock was granted to who led the line, and somebody stands in it already.
func TestPlaceOfWhoStandsBehindTheLeaderIsTakenWhenTheTurnIsOver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m, first := f.client(t).Mutex("k"), must(t, f.client(t).Mutex("k"))
		leads, next := background(t, m), background(t, m)
		require.NoError(t, first.Unlock(t.Context()))
		lease := granted(leads)
		require.NotNil(t, lease)
		assert.Zero(t, f.waiters(t, m))
		time.Sleep(hearTime)
		synctest.Wait()
		assert.Equal(t, 1, f.waiters(t, m))
		require.NoError(t, lease.Unlock(t.Context()))
		require.NotNil(t, granted(next))
	})
}

// Who holds the lock past its maximum hold, and never unlocks it, keeps nobody of its client from it who comes later.
func TestLineOfAHolderWhoseMaxHoldIsReachedIsLedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := granted(background(t, c.Mutex("k", MaxHold(time.Second))))
		time.Sleep(time.Second)
		next := background(t, c.Mutex("k"))
		time.Sleep(time.Until(lease.tenure.lapse.time()))
		time.Sleep(time.Second)
		assert.NotNil(t, granted(next))
	})
}

// The place that a leader has left to the next one is used up by that: who leads after it, while it holds the lock,
// would be told that the lock is its own.
func TestPlaceThatWasLeftToALeaderWhoHasTheLockIsNotUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m, first := f.client(t).Mutex("k"), must(t, f.client(t).Mutex("k"))
		leaves := lockEnds(within(t, time.Second), m)
		synctest.Wait()
		leads, next := background(t, m), background(t, m)
		require.ErrorIs(t, <-leaves, ErrLocked)
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		lease := granted(leads)
		require.NotNil(t, lease)
		time.Sleep(time.Minute) // the next one leads, and asks
		require.True(t, lease.Valid())
		require.Nil(t, granted(next))
		require.NoError(t, lease.Unlock(t.Context()))
		assert.NotNil(t, granted(next))
	})
}

// Nor is that of a leader who was refused.
func TestPlaceThatWasLeftToALeaderWhoIsRefusedIsNotUsedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		leaves := lockEnds(within(t, time.Second), m)
		synctest.Wait()
		refused := lockEnds(t.Context(), m)
		require.ErrorIs(t, <-leaves, ErrLocked)
		synctest.Wait()
		f.set(func() {
			f.before = refusesScript(mutexFamily.acquire, driver.NewServerError("NOPERM this user has no permissions to run the 'evalsha' command"))
		})
		require.ErrorIs(t, <-refused, ErrPermission)
		f.heal()
		next := background(t, m)
		time.Sleep(time.Minute)
		require.Nil(t, granted(next))
		require.NoError(t, lease.Unlock(t.Context()))
		require.NotNil(t, granted(next))
		assert.Zero(t, m.client.calls)
	})
}

// Whoever has the lock by the place that another has left has it by its own options.
func TestLeaseByThePlaceOfAnotherHasItsOwnMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, first := f.client(t), must(t, f.client(t).Mutex("k"))
		leaves := lockEnds(within(t, time.Second), c.Mutex("k"))
		synctest.Wait()
		next := background(t, c.Mutex("k", MaxHold(time.Second)))
		require.ErrorIs(t, <-leaves, ErrLocked)
		synctest.Wait()
		require.NoError(t, first.Unlock(t.Context()))
		lease := granted(next)
		require.NotNil(t, lease)
		time.Sleep(time.Second)
		assert.ErrorIs(t, lease.Err(), ErrMaxHold)
	})
}

// The context of who was passed the lock ends when its own maximum hold is reached, though nothing is to be done
// about the tenure for long.
func TestContextOfAPassedLeaseEndsAtItsOwnMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := granted(background(t, c.Mutex("k")))
		next := background(t, c.Mutex("k", MaxHold(time.Second)))
		require.NoError(t, lease.Unlock(t.Context()))
		heir := granted(next)
		require.NotNil(t, heir)
		require.Same(t, lease.tenure, heir.tenure)
		held := heir.Context()
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ErrorIs(t, context.Cause(held), ErrMaxHold)
	})
}

// Whoever is passed a lease for which there is no token yet, and of which the server says then that it is lost,
// goes on waiting as one does whose lease was known to be lost.
func TestPassedLeaseThatTheServerHasLostBeforeItsTokenIsThere(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		first := granted(background(t, m))
		f.set(func() { f.before = refusesScript(turnScript, driver.NotSent(errors.New("no route"))) })
		next := background(t, m)
		require.NoError(t, first.Unlock(t.Context()))
		require.Nil(t, granted(next))
		_, err := f.client(t).ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		other := must(t, f.client(t).Mutex("k", Fenced()))
		f.heal()
		time.Sleep(time.Second) // it asks again, before a renewal is due
		require.NoError(t, other.Unlock(t.Context()))
		heir := granted(next)
		require.NotNil(t, heir)
		assert.NotSame(t, first.tenure, heir.tenure)
		assert.Greater(t, heir.Token(), other.Token())
	})
}

// The tokens that may be given out are those of the latest answer: a server that has lost the last token, and whose
// clock stands behind it, reserves fewer than it had, and grants others those after them.
func TestTokensGrowWhereTheServerReservesFewerThanItHad(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		require.NoError(t, f.Set(m.keys.fence, Token(time.Now().Add(time.Hour).UnixMicro()).String()))
		lease := granted(background(t, m))
		for range 10 { // each answer is of some more
			_, lease = passAlong(t, m, lease, 1)
			time.Sleep(askEvery)
		}
		f.Del(m.keys.fence)
		passes, lease := passAlong(t, m, lease, 200)
		require.Equal(t, 200, passes)
		last := lease.Token()
		require.NoError(t, lease.Unlock(t.Context()))
		assert.Greater(t, must(t, f.client(t).Mutex("k", Fenced())).Token(), last)
	})
}

// An answer that there is no such lock, which comes after the release and because of it, tells of no loss, though the
// reply to the release is lost.
func TestAnAnswerThatComesAfterTheReleaseTellsOfNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		answers, again := make(chan struct{}), make(chan struct{})
		var released atomic.Bool
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				switch {
				case turnScript.runs(cmd):
					<-answers
				case released.Load():
					<-again
				}
				return nil
			}
			f.after = func(_ context.Context, cmd driver.Command) error {
				if mutexFamily.release.runs(cmd) && released.CompareAndSwap(false, true) {
					return errLostReply
				}
				return nil
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		waits := lockEnds(ctx, m)
		synctest.Wait() // the server is asked whether others wait
		cancel()
		require.ErrorIs(t, <-waits, context.Canceled)
		ended := make(chan error, 1)
		go func() { ended <- lease.Unlock(t.Context()) }()
		synctest.Wait()
		require.False(t, f.Exists("k"))
		close(answers)
		synctest.Wait()
		close(again)
		assert.NoError(t, <-ended)
	})
}

// An answer that cannot be read does not say that the lock is lost.
func TestAnswersAboutATurnOfAnUnknownFormTellNothing(t *testing.T) {
	for _, v := range []driver.Value{nil, "odd", []any{}, []any{"odd"}, []any{int64(1)}, []any{int64(1), int64(0), "odd"}, []any{int64(7)}} {
		_, reserved, err := turnReply(v)
		require.Error(t, err, "%v", v)
		assert.NotErrorIs(t, err, ErrNotHeld, "%v", v)
		assert.Zero(t, reserved)
	}
}

// Who has wanted the lock since before a tenure began is told that it was locked, also where the server has said nothing
// of that since, and it is over. Who came after that is not.
func TestATenureThatIsOverWasInTheWayOfWhoCameBefore(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		before := time.Now()
		time.Sleep(time.Second)
		tenure := must(t, f.client(t).Mutex("k")).tenure
		tenure.mu.Lock()
		tenure.lose(nil)
		tenure.mu.Unlock()
		assert.ErrorIs(t, tenure.lockedSince(before), ErrLocked)
		time.Sleep(time.Second)
		assert.NoError(t, tenure.lockedSince(time.Now()))

		lease := must(t, f.client(t).Mutex("free"))
		require.NoError(t, lease.Unlock(t.Context()))
		locked, ok := errors.AsType[*LockedError](lease.tenure.lockedSince(before))
		require.True(t, ok)
		assert.Zero(t, locked.Holder.Remaining, "of a lock that was released")
	})
}
