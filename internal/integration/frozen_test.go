package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// promptness is how long after the end of its context a call may return, where timers are not late.
const promptness = 50 * time.Millisecond

// redsync on redigo was still blocked after 10 seconds.
func TestServerFrozenCallsReturnWithin50msOfTheirContextsEnd(t *testing.T) {
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		t.Run("deadline", func(t *testing.T) { testFrozen(t, d, endsByDeadline) })
		t.Run("cancel", func(t *testing.T) { testFrozen(t, d, endsByCancel) })
	})
}

func testFrozen(t *testing.T, d driverUnderTest, ending func() ending) {
	srv := servertest.Single(t)
	c := d.client(t, srv.Addr, locker.TTL(2*time.Second))
	held := func(name string) *locker.Lease { return mustTryLock(t, c.Mutex(name)) }
	unlocked, extended, detached, other := held("unlocked"), held("extended"), held("detached"), held("other")
	calls := map[string]func(ctx context.Context) error{
		"Lock":        func(ctx context.Context) error { _, err := c.Mutex("free").Lock(ctx); return err },
		"Lock fenced": func(ctx context.Context) error { _, err := c.Mutex("fenced", locker.Fenced()).Lock(ctx); return err },
		"Lock held":   func(ctx context.Context) error { _, err := c.Mutex("other").Lock(ctx); return err },
		"TryLock":     func(ctx context.Context) error { _, err := c.Mutex("free").TryLock(ctx); return err },
		"Unlock":      unlocked.Unlock,
		"Extend":      func(ctx context.Context) error { return extended.Extend(ctx, 3*time.Second) },
		"Detach":      func(ctx context.Context) error { _, err := detached.Detach(ctx, 3*time.Second); return err },
		"Inspect":     func(ctx context.Context) error { _, err := c.Inspect(ctx, "free"); return err },
	}
	if !d.wrapped { // its first connection is yet to be made
		cold := d.client(t, srv.Addr, locker.TTL(2*time.Second))
		calls["Lock cold"] = func(ctx context.Context) error { _, err := cold.Mutex("cold").Lock(ctx); return err }
		unconnected := d.client(t, srv.Addr, locker.TTL(2*time.Second))
		calls["TryLock cold"] = func(ctx context.Context) error { _, err := unconnected.Mutex("cold").TryLock(ctx); return err }
	}

	srv.Pause()
	t.Cleanup(srv.Resume)
	timers := watchTimers(t)
	var all sync.WaitGroup
	for name, call := range calls {
		all.Go(func() { assertPrompt(t, timers, name, ending(), call) })
	}
	all.Wait()
	assert.True(t, other.Valid(), "a freeze shorter than the TTL has cost a lease")

	srv.Resume()
	resumed := time.Now()
	for _, lease := range []*locker.Lease{extended, detached, other} {
		assert.NoError(t, lease.Unlock(soon(t)), lease.Name())
	}
	eventually(t, "nothing is left on the server", func() bool { return len(keys(t, srv)) == 0 })
	assert.Less(t, time.Since(resumed), 3*time.Second, "what late requests took outlived its TTL")
	assertMortal(t, srv)
	require.NoError(t, mustLock(t, c.Mutex("free")).Unlock(soon(t)))
}

// assertPrompt checks that call returns soon after its context has ended, and not
// before, with an error that says so.
func assertPrompt(t *testing.T, timers *timerWatch, name string, e ending, call func(context.Context) error) {
	t.Helper()
	err := call(e.ctx)
	returned := time.Now()
	late := returned.Sub(<-e.at)
	// A deadline has passed a moment before the context says so.
	assert.Greater(t, late, -5*time.Millisecond, "%s returned before its context ended: %v", name, err)
	starved := timers.most()
	assert.Less(t, late-starved, promptness, "%s returned %v late, and timers were up to %v late", name, late, starved)
	assert.ErrorIs(t, err, e.with, name)
	assert.NotErrorIs(t, err, locker.ErrLocked, "%s: nobody can know that", name)
}

// An ending is a context, when it ends and with what.
type ending struct {
	ctx  context.Context
	at   <-chan time.Time
	with error
}

const callTime = 150 * time.Millisecond

func endsByDeadline() ending {
	at := make(chan time.Time, 1)
	at <- time.Now().Add(callTime)
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	context.AfterFunc(ctx, cancel) // go vet wants it to be called
	return ending{ctx, at, context.DeadlineExceeded}
}

func endsByCancel() ending {
	at := make(chan time.Time, 1)
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(callTime, func() {
		at <- time.Now()
		cancel()
	})
	return ending{ctx, at, context.Canceled}
}
