package locker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// No call that would take a lock reaches for the server, or for a lease that is known here, once its
// client is closed.
func TestNoAttemptBeginsAfterClose(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		owner := NewOwner()
		id, err := must(t, c.Mutex("detached")).Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		f.reset()
		for call, run := range map[string]func() (*Lease, error){
			"TryLock":         func() (*Lease, error) { return c.Mutex("k").TryLock(t.Context()) },
			"TryLock, fenced": func() (*Lease, error) { return c.Mutex("k", Fenced()).TryLock(t.Context()) },
			"Lock, reentrant": func() (*Lease, error) { return c.Mutex("r", Reentrant(), As(owner)).Lock(t.Context()) },
			"Attach":          func() (*Lease, error) { return c.Mutex("detached").Attach(t.Context(), id) },
		} {
			_, err := run()
			assert.Equal(t, ErrClosed, err, call)
		}
		assert.Empty(t, f.commands())
		assert.Zero(t, c.calls)
	})
}

// Who comes with a context that has ended does not even re-enter a lock without a request.
func TestNoAttemptBeginsUnderAContextThatHasEnded(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NewOwner()))
		lease := must(t, m)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for call, lock := range map[string]func(context.Context) (*Lease, error){"Lock": m.Lock, "TryLock": m.TryLock} {
			_, err := lock(ended)
			assert.ErrorIs(t, err, context.Canceled, call)
		}
		assert.Zero(t, m.client.calls)
		require.NoError(t, lease.Unlock(t.Context()))
		assert.False(t, f.Exists("k"), "nobody has re-entered it")
	})
}

// Where no request of a call was sent, its error says so: nothing has to be feared of it.
func TestCallOfWhichNothingWasSentSaysSo(t *testing.T) {
	for name, opts := range map[string][]Option{"SET": nil, "script": {Fenced()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				m := c.Mutex("k", append(opts, Retry(Attempts(2, Constant(time.Second))))...)
				lease := must(t, c.Mutex("held", opts...))
				f.set(func() {
					f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
				})
				for call, run := range map[string]func() error{
					"Lock":    func() error { _, err := m.Lock(t.Context()); return err },
					"TryLock": func() error { _, err := m.TryLock(t.Context()); return err },
					"Extend":  func() error { return lease.Extend(within(t, time.Second), time.Minute) },
				} {
					err := run()
					assert.ErrorIs(t, err, ErrUnavailable, call)
					assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%s: %v", call, err)
				}
				err := lease.Unlock(t.Context())
				assert.ErrorIs(t, err, ErrUnavailable)
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
			})
		})
	}
}

// A lock is not kept in mind for an attempt that is over, however often that has asked.
func TestAttemptThatHasAskedTwiceIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), Fenced(), As(NewOwner()))
		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		require.NoError(t, must(t, m).Unlock(t.Context()))
		assert.Empty(t, m.client.holdings.tokens)
	})
}
