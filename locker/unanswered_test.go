package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// assertUnanswered is about a call whose time was over before a server that hangs had said
// anything.
func assertUnanswered(t *testing.T, err error, what string) {
	t.Helper()
	wait, ok := errors.AsType[*WaitError](err)
	if assert.True(t, ok, "%s: %v", what, err) {
		assert.ErrorIs(t, wait.Reason, ErrUnavailable, what)
		assert.NotErrorIs(t, wait.Reason, context.DeadlineExceeded, what)
	}
	assert.ErrorIs(t, err, context.DeadlineExceeded, what)
	assert.NotErrorIs(t, err, ErrLocked, what)
	assert.ErrorContains(t, err, "server unavailable", what)
}

// within returns a context with a deadline that is shorter than the time of one request.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// hangingServers runs test with a client of one server, and with one of a quorum. hang makes the
// server hang, or a majority.
func hangingServers(t *testing.T, test func(t *testing.T, c *Client, hang func())) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeDeployment) { test(t, f.client(t), f.hang) })
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		test(t, nodes.client(t, QuorumConfig{NodeTimeout: 10 * time.Second}), func() {
			synctest.Wait()
			nodes[0].hang()
			nodes[1].hang()
		})
	})
}

const requestTime = 300 * time.Millisecond // of an ordinary request of a web server

// An outage is told from a lock that is held, also where the caller has less time than a request.
func TestADeadlineInAnOutageIsUnavailable(t *testing.T) {
	kinds := map[string][]Option{
		"in line": nil, "fenced": {Fenced()}, "unfair": {Unfair()}, "policy": {Retry(Constant(50 * time.Millisecond))},
		"reentrant": {Reentrant()}, "reader": {ForReading()}, "writer": {ForWriting()},
	}
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			test := func(t *testing.T, c *Client, hang func()) {
				m := c.Mutex("k", opts...)
				mustPair(t, m)
				hang()
				_, err := m.Lock(within(t, requestTime))
				assertUnanswered(t, err, "Lock")
				_, err = m.TryLock(within(t, requestTime))
				assertUnanswered(t, err, "TryLock")
				_, err = m.Attach(within(t, requestTime), newID())
				assertUnanswered(t, err, "Attach")
				err = m.Do(within(t, requestTime), func(context.Context) error { return nil })
				assertUnanswered(t, err, "Do")
				_, err = c.Mutex("k", append(opts, WaitTimeout(requestTime))...).Lock(t.Context())
				assertUnanswered(t, err, "WaitTimeout")
				assert.ErrorIs(t, err, ErrWaitTimeout)
				why := errors.New("shutting down")
				ctx, cancel := context.WithTimeoutCause(t.Context(), requestTime, why)
				defer cancel()
				_, err = m.Lock(ctx)
				assertUnanswered(t, err, "a cause of its own")
				assert.ErrorIs(t, err, why)
			}
			hangingServers(t, test)
		})
	}
}

// Those behind the goroutine that asks for all of them are told what it would be.
func TestADeadlineInLineInAnOutageIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		mustPair(t, c.Mutex("first"))
		f.hang()
		ctx, cancel := context.WithCancel(t.Context())
		leader := lockEnds(ctx, c.Mutex("k"))
		synctest.Wait()
		_, err := c.Mutex("k").Lock(within(t, requestTime))
		assertUnanswered(t, err, "in line")
		_, err = c.Mutex("k", WaitTimeout(requestTime)).Lock(t.Context())
		assertUnanswered(t, err, "WaitTimeout in line")
		_, err = c.Mutex("k").TryLock(within(t, requestTime))
		assertUnanswered(t, err, "TryLock beside a line")
		f.heal()
		cancel()
		<-leader
	})
}

// deadlines has calls of 300 ms begin each 100 ms, for so long, and returns what each that begins
// later than from was told.
func deadlines(t *testing.T, m *Mutex, d, from time.Duration) <-chan error {
	const every = 100 * time.Millisecond
	told := make(chan error, d/every)
	var calls sync.WaitGroup
	for at := time.Duration(0); at < d; at += every {
		end := lockEnds(within(t, requestTime), m)
		calls.Go(func() {
			if err := <-end; at >= from {
				told <- err
			}
		})
		time.Sleep(every)
	}
	calls.Wait()
	close(told)
	return told
}

// What the first in line was told before the server hung was told to all who came after it, one
// behind the other, for as long as it hung.
func TestALineWhoseCallersHaveLittleTimeHearsOfAnOutage(t *testing.T) {
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprint("held by its own client: ", own), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				holder := f.client(t)
				if own {
					holder = c
				}
				opts := []Option{TTL(3 * time.Second)}
				lease := granted(background(t, holder.Mutex("k", opts...)))
				m := c.Mutex("k", opts...)
				for err := range deadlines(t, m, 5*time.Second, 0) {
					assert.ErrorIs(t, err, ErrLocked, "before")
				}
				meanwhile := lockEnds(within(t, requestTime), m)
				time.Sleep(100 * time.Millisecond)
				f.hang()
				for err := range deadlines(t, m, time.Minute, 3*time.Second) {
					assertUnanswered(t, err, "while the server hangs")
				}
				assert.ErrorIs(t, <-meanwhile, ErrLocked)
				f.heal()
				assert.ErrorIs(t, lease.Err(), ErrLost)
				next, err := m.Lock(within(t, 5*time.Second))
				require.NoError(t, err)
				require.NoError(t, next.Unlock(t.Context()))
				assert.Empty(t, c.lines.byRecord)
			})
		})
	}
}

// Who comes while the first in line waits for an answer is told that there is none; who was there
// before, or comes before the server is asked again, that the lock is held.
func TestALineTellsWhatWasHeardUntilTheServerIsAskedAgain(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.hold(t)
		m := f.client(t).Mutex("k")
		ctx, cancel := context.WithCancel(t.Context())
		first := lockEnds(ctx, m)
		time.Sleep(100 * time.Millisecond)
		f.hang()
		assert.ErrorIs(t, <-lockEnds(within(t, requestTime), m), ErrLocked, "the server was not asked since")
		before := lockEnds(within(t, 2*time.Second), m)
		time.Sleep(pollInterval)
		assertUnanswered(t, <-lockEnds(within(t, 900*time.Millisecond), m), "after the server was asked again")
		assert.ErrorIs(t, <-before, ErrLocked)
		f.heal()
		cancel()
		assert.ErrorIs(t, <-first, ErrLocked)
	})
}

// Nor does it tell what another line has heard, of another lock.
func TestALineTellsNothingOfAnotherLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		must(t, f.client(t).Mutex("held"))
		c := f.client(t)
		_, err := c.Mutex("held").Lock(within(t, requestTime))
		require.ErrorIs(t, err, ErrLocked)
		require.Empty(t, c.lines.byRecord)
		f.hang()
		leader := lockEnds(within(t, time.Second), c.Mutex("k"))
		synctest.Wait()
		_, err = c.Mutex("k").Lock(within(t, requestTime))
		assertUnanswered(t, err, "in line")
		<-leader
		f.heal()
	})
}

// Nor who had the lock in its client, once that has given it up, and nobody answers who wants it next.
func TestALineTellsNothingOfAHolderWhoHasGivenTheLockUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		require.NoError(t, lease.Extend(t.Context(), time.Hour), "so that it is not passed on")
		leader := lockEnds(within(t, 2*time.Second), m)
		synctest.Wait()
		f.set(func() { f.before = swallows(func(cmd driver.Command) bool { return !mutexFamily.release.runs(cmd) }) })
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(requestTime)
		_, err := m.Lock(within(t, requestTime))
		assertUnanswered(t, err, "in line")
		<-leader
		f.heal()
	})
}

// It does where the server has said how the hold ended since the caller came, though nobody answers who asks next. Of an
// end that the server has not confirmed nothing was heard.
func TestALineTellsOfAHoldWhoseEndTheServerHasConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		end   func(f *fakeDeployment, l *Lease) error
		hangs func(driver.Command) bool
		is    error
		heard bool
	}{
		"released": {end: func(_ *fakeDeployment, l *Lease) error { return l.Unlock(context.Background()) }, hangs: isAcquire, heard: true},
		"lost": {end: func(f *fakeDeployment, l *Lease) error {
			f.Del("k")
			return l.Extend(context.Background(), time.Minute)
		}, hangs: isAcquire, is: ErrAbsent, heard: true},
		"not answered": {end: func(_ *fakeDeployment, l *Lease) error {
			ctx, cancel := context.WithTimeout(context.Background(), requestTime)
			defer cancel()
			return l.Unlock(ctx)
		}, hangs: func(driver.Command) bool { return true }, is: ErrUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := f.client(t).Mutex("k")
				lease := granted(background(t, m))
				require.NoError(t, lease.Extend(t.Context(), time.Hour), "so that it is not passed on")
				leader := lockEnds(within(t, 3*requestTime), m)
				synctest.Wait()
				time.Sleep(turnTime / 4) // too short for the leader to ask before
				next := lockEnds(within(t, 2*requestTime), m)
				time.Sleep(turnTime / 4)
				f.set(func() { f.before = swallows(c.hangs) })
				require.ErrorIs(t, c.end(f, lease), c.is)
				if err := <-next; c.heard {
					assert.ErrorIs(t, err, ErrLocked)
				} else {
					assertUnanswered(t, err, "in line")
				}
				<-leader
				f.heal()
			})
		})
	}
}

// To unlock again is no word of the server.
func TestALineIsToldNothingByAnUnlockThatIsRepeated(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		require.NoError(t, lease.Extend(t.Context(), time.Hour), "so that it is not passed on")
		leader := lockEnds(within(t, 2*time.Second), m)
		synctest.Wait()
		f.set(func() { f.before = swallows(isAcquire) })
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(requestTime)
		next := lockEnds(within(t, requestTime), m)
		time.Sleep(requestTime / 2)
		require.NoError(t, lease.Unlock(t.Context()))
		assertUnanswered(t, <-next, "in line")
		<-leader
		f.heal()
	})
}

// A lock that this client holds is held, whatever the server says.
func TestALockHeldByTheOwnClientIsLockedInAnOutage(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		granted(background(t, m))
		first := lockEnds(within(t, 2*time.Second), m)
		time.Sleep(100 * time.Millisecond)
		f.hang()
		for err := range deadlines(t, m, 5*time.Second, 0) {
			assert.ErrorIs(t, err, ErrLocked)
			assert.NotErrorIs(t, err, ErrUnavailable)
		}
		assert.ErrorIs(t, <-first, ErrLocked)
		f.heal()
	})
}

// Where each of many callers leaves soon after it has become the first in line, few wait for an
// answer. The server is well all the same.
func TestManyShortWaitsInLineAreNoOutage(t *testing.T) {
	const trip = 10 * time.Millisecond
	for _, most := range []time.Duration{2, 5, 20} {
		t.Run(fmt.Sprintf("of %d round trips", most), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				f.hold(t)
				m := f.client(t).Mutex("k")
				f.slow(trip)
				r := rand.New(rand.NewPCG(1, 2))
				var ends []<-chan error
				for range 600 {
					ends = append(ends, lockEnds(within(t, most*trip), m))
					time.Sleep(time.Microsecond + time.Duration(r.ExpFloat64()*float64(trip)/2))
				}
				for _, end := range ends {
					err := <-end
					assert.ErrorIs(t, err, ErrLocked)
					assert.NotErrorIs(t, err, ErrUnavailable)
				}
				f.heal()
			})
		})
	}
}

// What is not answered to who was the last to ask is no outage long after.
func TestARequestThatNobodyWaitsForAnyMoreIsForgotten(t *testing.T) {
	const trip = 10 * time.Millisecond
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		lease := granted(background(t, m))
		last := lockEnds(within(t, 1500*time.Millisecond), m)
		time.Sleep(500 * time.Millisecond)
		f.hang() // until it has asked again
		assert.ErrorIs(t, <-last, ErrLocked)
		f.heal()
		time.Sleep(5 * time.Second)
		f.slow(trip)
		first := background(t, m)
		second := lockEnds(within(t, trip+trip/2), m)
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		err := <-second // while the first asks
		assert.ErrorIs(t, err, ErrLocked)
		assert.NotErrorIs(t, err, ErrUnavailable)
		f.heal()
		assert.NotNil(t, <-first)
	})
}

// The lock was passed on to it, without the token that it may not be used without.
func TestADeadlineBeforeTheTokenIsUnavailable(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced())
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		f.hang()
		waiting := lockEnds(within(t, requestTime), m)
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		assertUnanswered(t, <-waiting, "passed on")
		f.heal()
	})
}

// It is no word about a server that was not asked, or that nobody waits for any more.
func TestNoOutageIsToldWhereNoneIsKnown(t *testing.T) {
	test := func(t *testing.T, c *Client, hang func()) {
		m := c.Mutex("k")
		mustPair(t, m)
		hang()
		unknown := func(err error, what string) {
			t.Helper()
			wait, ok := errors.AsType[*WaitError](err)
			require.True(t, ok, "%s: %v", what, err)
			assert.NoError(t, wait.Reason, what)
		}
		over := within(t, 0)
		_, err := m.Lock(over)
		unknown(err, "over before")
		_, err = m.TryLock(over)
		unknown(err, "over before, TryLock")

		ctx, cancel := context.WithCancel(t.Context())
		first, second := lockEnds(ctx, m), lockEnds(ctx, m)
		synctest.Wait()
		_, err = m.Lock(over)
		unknown(err, "over before, in line")
		cancel()
		unknown(<-first, "canceled")
		unknown(<-second, "canceled, in line")
	}
	hangingServers(t, test)
}

// What was heard before remains the reason.
func TestADeadlineTellsWhatWasHeardBeforeTheOutage(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.hold(t)
		waiting := lockEnds(within(t, 2*time.Second), f.client(t, Label("me")).Mutex("k"))
		time.Sleep(100 * time.Millisecond)
		f.hang()
		err := <-waiting
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrLocked)
		assert.NotErrorIs(t, err, ErrUnavailable)
		f.heal()
	})
}

// A proxy may answer for a server that does not, after it has sent it the request. That is no refusal:
// what became of the request is not known.
func TestAProxyThatHasNoAnswerHasNotRefused(t *testing.T) {
	for name, opts := range map[string][]Option{"plain": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				unanswered := driver.NewServerError("ERR Connection timed out")
				m := f.client(t).Mutex("k", opts...)
				take := "EVALSHA"
				if opts == nil {
					take = "SET"
				}
				f.set(func() { f.after = once(take, unanswered) })
				lease, err := m.TryLock(t.Context())
				require.NoError(t, err, "it is held")

				f.set(func() { f.after = once("EVALSHA", unanswered) })
				require.NoError(t, lease.Unlock(t.Context()), "it was released")

				f.set(func() { f.after = func(context.Context, driver.Command) error { return unanswered } })
				_, err = m.TryLock(t.Context())
				require.ErrorIs(t, err, ErrUnavailable)
				f.set(func() { f.after = nil })
				time.Sleep(5 * time.Second)
				assert.Equal(t, int64(0), f.do(t, "EXISTS", "k"), "nobody knows of having it")
			})
		})
	}
}
