package locker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// The cleanup's last reply and its end come at the same time.
func TestCleanupEndsBesideItsReply(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k", TTL(4*time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		time.Sleep(400 * time.Millisecond)
		require.ErrorIs(t, l.Unlock(t.Context()), ErrUnknown)
		time.Sleep(10 * time.Second)
	})
}

func TestCloseDoesNotWaitForHangingLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		l, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, l.Unlock(t.Context()))
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		done := make(chan error)
		begun := time.Now()
		go func() { _, err := c.Mutex("k").Lock(context.Background()); done <- err }()
		try := make(chan error, 1)
		go func() {
			_, err := c.Mutex("k", AttemptTimeout(9*time.Second)).TryLock(context.Background())
			try <- err
		}()
		synctest.Wait()
		go c.Close()
		err = <-done
		assert.Less(t, time.Since(begun), time.Second, "Lock returned with: %v", err)
		assert.ErrorIs(t, err, ErrClosed)
		err = <-try
		assert.ErrorIs(t, err, ErrClosed, "TryLock after %v", time.Since(begun))
		time.Sleep(20 * time.Second)
	})
}

// Who gives no deadline to TryLock is told how long a server that says nothing keeps it.
func TestTryLockOfASilentServerEnds(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		begun := time.Now()
		_, err := f.client(t).Mutex("k", WaitTimeout(time.Second)).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, ErrWaitTimeout)
		assert.Greater(t, time.Since(begun), 3*DefaultAttemptTimeout)
		assert.LessOrEqual(t, time.Since(begun), 3*DefaultAttemptTimeout+time.Second)
		time.Sleep(20 * time.Second)
	})
}

func TestAttachEndsTheDetachTTL(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		l, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		id, err := l.Detach(t.Context(), 24*time.Hour)
		require.NoError(t, err)
		_, err = c.Mutex("k", TTL(time.Second), NoRenewal()).Attach(t.Context(), id)
		require.NoError(t, err)
		assert.LessOrEqual(t, f.TTL("k"), time.Second, "a crashed holder delays the others by its own TTL at most")
	})
}

func TestAttachToForeign(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.HSet("h", "a", "b")
		_, err := f.client(t).Mutex("h").Attach(t.Context(), newID())
		assert.ErrorIs(t, err, ErrForeign, "%v", err)
	})
}

func TestExtendSaysWhy(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("connection refused")) }
		})
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		err = l.Extend(ctx, time.Minute)
		assert.ErrorIs(t, err, ErrUnavailable, "%v", err)
		assert.ErrorContains(t, err, "connection refused")
	})
}

// A nil ctx panics, as everywhere. A program that recovers, as net/http does, still has its
// lease, and nobody waits for ever.
func TestUnlockWithoutContextLosesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		var none context.Context
		assert.Panics(t, func() { _ = lease.Unlock(none) })
		assert.True(t, lease.Valid())
		require.NoError(t, lease.Unlock(t.Context()))
		lease, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestTryLockWithoutContextIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		var none context.Context
		assert.Panics(t, func() { _, _ = c.Mutex("k").TryLock(none) })
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
	})
}

// What the package's documentation says of a nil ctx.
func TestWithoutContextEveryCallPanicsAndNothingIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k", ForReading()).Lock(t.Context())
		require.NoError(t, err)
		var none context.Context
		for name, call := range map[string]func(){
			"Lock":         func() { _, _ = c.Mutex("l").Lock(none) },
			"TryLock":      func() { _, _ = c.Mutex("l").TryLock(none) },
			"Attach":       func() { _, _ = c.Mutex("l").Attach(none, newID()) },
			"Do":           func() { _ = c.Do(none, "l", func(context.Context) error { return nil }) },
			"Inspect":      func() { _, _ = c.Inspect(none, "l") },
			"ForceRelease": func() { _, _ = c.ForceRelease(none, "k") },
			"Unlock":       func() { _ = lease.Unlock(none) },
			"Extend":       func() { _ = lease.Extend(none, time.Hour) },
			"Upgrade":      func() { _, _ = lease.Upgrade(none) },
			"TryUpgrade":   func() { _, _ = lease.TryUpgrade(none) },
			"Detach":       func() { _, _ = lease.Detach(none, time.Minute) },
		} {
			assert.Panics(t, call, name)
			assert.True(t, lease.Valid(), name)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
	})
}

// A Client that nobody has made is no server that is overloaded, as which it would be tried again.
func TestLocksOfTheZeroClientAreInvalid(t *testing.T) {
	for name, call := range map[string]func(m *Mutex) error{
		"Lock":    func(m *Mutex) error { _, err := m.Lock(t.Context()); return err },
		"TryLock": func(m *Mutex) error { _, err := m.TryLock(t.Context()); return err },
		"Attach":  func(m *Mutex) error { _, err := m.Attach(t.Context(), newID()); return err },
		"Do":      func(m *Mutex) error { return m.Do(t.Context(), func(context.Context) error { return nil }) },
	} {
		for _, opts := range [][]Option{nil, {Fenced()}, {TTL(time.Minute)}} {
			err := call(new(Client).Mutex("k", opts...))
			assert.ErrorIs(t, err, ErrInvalid, name)
			assert.NotErrorIs(t, err, ErrTooManyWaiters, name)
			assert.ErrorContains(t, err, "a zero Client", name)
		}
	}
	var c Client
	for range 2 { // the second one waits for the first
		assert.ErrorIs(t, c.Close(), ErrInvalid)
	}
}

func TestExtendOfALeaseThatIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.Del("k")
		err = l.Extend(t.Context(), time.Minute)
		assert.ErrorIs(t, err, ErrAbsent)
		assert.EqualError(t, err, `locker: extend "k": not held: the lease is gone from the server`)
	})
}

func TestUnlockOfALostLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		l, err := f.client(t).Mutex("k", TTL(time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(5 * time.Second) // ran out long ago
		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		err = l.Unlock(t.Context())
		assert.ErrorIs(t, err, ErrNotHeld, "nil means: the lock was ours until now")
	})
}

// The documented limit of that: a server that had lost the lease before looks the same.
func TestUnlockWithoutReplyTakesAnAbsentLockForReleased(t *testing.T) {
	for name, kind := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			l, err := f.client(t).Mutex("k", kind...).Lock(t.Context())
			require.NoError(t, err)
			f.FlushAll()
			f.set(func() { f.before = once("EVALSHA", errLostReply) })
			assert.NoError(t, l.Unlock(t.Context()), name)
		})
	}
}

func TestDescribeHiccup(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		d := &describeOnce{fakeDeployment: f}
		c, err := New(d)
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "0", c.store.link.trusted())
		_, err = c.Mutex("k", WaitTimeout(time.Second), Metadata("waits at the server")).Lock(t.Context())
		require.ErrorIs(t, err, ErrWaitTimeout)
		assert.Equal(t, "1", c.store.link.trusted(), "the first waiter asks again")
	})
}

type describeOnce struct {
	*fakeDeployment
	n int
}
type describeConn struct {
	*fakeConn
	d *describeOnce
}

func (d *describeOnce) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := d.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &describeConn{c.(*fakeConn), d}, nil
}
func (c *describeConn) Describe(ctx context.Context) (driver.Topology, error) {
	c.d.n++
	if c.d.n == 1 {
		return driver.Topology{}, errors.New("timeout")
	}
	return c.fakeConn.Describe(ctx)
}

func TestLessThanAMillisecondLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		require.NoError(t, f.Set("k", record(newID(), millis(time.Second), "dead|")))
		f.SetTTL("k", 500*time.Microsecond)
		begun := time.Now()
		_, err := f.client(t).Mutex("k", Retry(Constant(time.Hour))).Lock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 100*time.Millisecond)
	})
}
