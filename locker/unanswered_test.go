package locker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
