package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// patience is how long a test waits for what should happen soon, on a machine
// that may be overloaded. Nothing is measured by it.
const patience = 20 * time.Second

// renewedTTL is that of leases that have to outlast renewals: on a machine that is
// busy with other tests a process may get no time for most of a second.
const renewedTTL = 3 * time.Second

// quorumTTL is that of such leases on five nodes, of which a test disturbs some: a renewal that
// fails there needs time for another one.
const quorumTTL = 2 * renewedTTL

// newWire returns a line to the server at addr, and its own address.
func newWire(t *testing.T, addr string) (*wire.Wire, string) {
	t.Helper()
	w := wire.New(wire.TCP(addr))
	t.Cleanup(func() {
		assert.NoError(t, w.Close())
		assert.Empty(t, w.Broken())
	})
	through, err := w.Listen()
	require.NoError(t, err)
	return w, through
}

// within returns a context that ends after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// soon bounds calls that should not take long.
func soon(t *testing.T) context.Context {
	t.Helper()
	return within(t, patience)
}

func mustLock(t *testing.T, m *locker.Mutex) *locker.Lease {
	t.Helper()
	lease, err := m.Lock(soon(t))
	require.NoError(t, err)
	return lease
}

func mustTryLock(t *testing.T, m *locker.Mutex) *locker.Lease {
	t.Helper()
	lease, err := m.TryLock(soon(t))
	require.NoError(t, err)
	return lease
}

// lockResult is what a Lock in the background has come to.
type lockResult struct {
	lease *locker.Lease
	err   error
	at    time.Time
}

// goLock calls Lock in the background.
func goLock(ctx context.Context, m *locker.Mutex) <-chan lockResult {
	done := make(chan lockResult, 1)
	go func() {
		lease, err := m.Lock(ctx)
		done <- lockResult{lease, err, time.Now()}
	}()
	return done
}

// goLockWaiting calls Lock in the background and returns when the server has its
// place in the queue.
func goLockWaiting(t *testing.T, ctx context.Context, m *locker.Mutex, observer *locker.Client) <-chan lockResult {
	t.Helper()
	before, err := observer.Inspect(soon(t), m.Name())
	require.NoError(t, err)
	done := goLock(ctx, m)
	eventually(t, "a waiter is in the queue", func() bool {
		select {
		case r := <-done:
			require.FailNow(t, "Lock has returned without waiting", "%q: %v; before: %+v", m.Name(), r.err, before)
		default:
		}
		s, err := observer.Inspect(soon(t), m.Name())
		return err == nil && s.Waiters > before.Waiters
	})
	return done
}

// assertAllListen waits until messages reach all who wait for a lock: they stand in the
// queue before, if the machine is too busy for a subscription in 50 ms.
func assertAllListen(t *testing.T, srv *servertest.Server, name string) {
	t.Helper()
	eventually(t, "all waiters listen", func() bool {
		entries := do(t, srv, "HVALS", "__golocker:w:{"+name+"}:"+name).([]any)
		deaf := func(entry any) bool { return !strings.HasPrefix(entry.(string), "gl1|1|") }
		return len(entries) > 0 && !slices.ContainsFunc(entries, deaf)
	})
}

// assertWaiters waits until n stand in the queue of a lock.
func assertWaiters(t *testing.T, observer *locker.Client, name string, n int) {
	t.Helper()
	happens := becomes(patience, func() bool {
		s, err := observer.Inspect(soon(t), name)
		return err == nil && s.Waiters == n
	})
	assert.True(t, happens, "there never were %d waiters for %q", n, name)
}

// giveUpWhen calls TryLock, and cancels it as soon as the fault has happened.
func giveUpWhen(t *testing.T, m *locker.Mutex, ctx context.Context, fault *wire.Rule) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := m.TryLock(ctx)
		failed <- err
	}()
	select {
	case <-fault.Happened():
	case err := <-failed:
		require.FailNow(t, "TryLock returned before the fault happened", "%s: %v", m.Name(), err)
	}
	cancel()
	require.ErrorIs(t, <-failed, context.Canceled, m.Name())
}

// had returns the lease that a Lock in the background has got.
func had(t *testing.T, done <-chan lockResult) lockResult {
	t.Helper()
	select {
	case r := <-done:
		require.NoError(t, r.err)
		return r
	case <-time.After(patience):
		require.FailNow(t, "Lock does not return")
		return lockResult{}
	}
}

// lossOf waits until a lease has ended, and returns why.
func lossOf(t *testing.T, lease *locker.Lease) error {
	t.Helper()
	select {
	case <-lease.Context().Done():
	case <-time.After(patience):
		require.FailNow(t, "the holder never learns that its lease has ended", lease.Name())
	}
	return context.Cause(lease.Context())
}

// eventually waits until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	eventuallyWithin(t, patience, what, check)
}

func eventuallyWithin(t *testing.T, d time.Duration, what string, check func() bool) {
	t.Helper()
	require.True(t, becomes(d, check), "it never came to be: %s, within %v", what, d)
}

// becomes waits until check is true, for d at most.
func becomes(d time.Duration, check func() bool) bool {
	end := time.After(d)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-tick.C:
		case <-end:
			return false
		}
	}
	return true
}

// lasts lets time pass while a state holds that check reports.
func lasts(t *testing.T, d time.Duration, check func()) {
	t.Helper()
	end := time.After(d)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		check()
		select {
		case <-tick.C:
		case <-end:
			return
		}
	}
}

// do sends a command to the server itself and requires a reply.
func do(t *testing.T, s *servertest.Server, args ...string) any {
	t.Helper()
	reply, err := s.Do(args...)
	require.NoError(t, err)
	return reply
}

// exists tells whether the server has the key.
func exists(t *testing.T, s *servertest.Server, key string) bool {
	t.Helper()
	return do(t, s, "EXISTS", key) == int64(1)
}

// keys returns all keys of the server, except those that are kept on purpose: the
// ids of given-up attempts for a minute, the last fencing token for a day.
func keys(t *testing.T, s *servertest.Server) []string {
	t.Helper()
	list, _ := do(t, s, "KEYS", "*").([]any)
	var names []string
	for _, key := range list {
		if name := key.(string); !strings.HasPrefix(name, "__golocker:v:") && !strings.HasPrefix(name, "__golocker:f:") {
			names = append(names, name)
		}
	}
	return names
}

// assertMortal checks that every key on the server has a TTL.
func assertMortal(t *testing.T, s *servertest.Server) {
	t.Helper()
	list, _ := do(t, s, "KEYS", "*").([]any)
	for _, key := range list {
		assert.NotEqual(t, int64(-1), do(t, s, "PTTL", key.(string)), "the key %q has no TTL", key)
	}
}

// calls returns how often the server has executed each command.
func calls(t *testing.T, s *servertest.Server) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for line := range strings.Lines(do(t, s, "INFO", "commandstats").(string)) {
		name, rest, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok {
			continue
		}
		number, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(number)
		require.NoError(t, err)
		counts[name] = n
	}
	return counts
}

// requireCode checks that err has a server's error reply with that code.
func requireCode(t *testing.T, err error, code string) {
	t.Helper()
	var refusal *driver.ServerError
	require.ErrorAs(t, err, &refusal)
	require.Equal(t, code, refusal.Code, refusal.Message)
}

// timed returns how long f took.
func timed(f func()) time.Duration {
	begun := time.Now()
	f()
	return time.Since(begun)
}

// numbered returns a name of its own for each n.
func numbered(name string, n int) string { return fmt.Sprintf("%s-%d", name, n) }

// isAny tells whether err is one of those.
func isAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// inAnotherProcess makes this test once more, in a process of its own that has variable in its environment.
func inAnotherProcess(t *testing.T, variable string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.v", "-test.run=^"+strings.ReplaceAll(t.Name(), "/", "$/^")+"$")
	cmd.Env = append(os.Environ(), variable)
	said, err := cmd.CombinedOutput()
	assert.NoError(t, err, "%s", said)
	assert.Contains(t, string(said), "--- PASS: "+t.Name())
}
