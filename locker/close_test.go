package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// Also those beyond the first batch, with a server that hangs.
func TestCloseEndsContextsInTime(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		var leases []*Lease
		for i := range 130 {
			l, err := c.Mutex(fmt.Sprint("k", i), TTL(time.Second)).Lock(t.Context())
			require.NoError(t, err)
			l.Context()
			leases = append(leases, l)
		}
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		go c.Close()
		time.Sleep(1200 * time.Millisecond) // longer than TTL
		for _, l := range leases {
			assert.Error(t, l.Context().Err(), "%s", l.Name())
		}
		time.Sleep(time.Minute)
	})
}

func TestCloseBesideAnotherGivesTheSameAnswer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		must(t, c.Mutex("k"))
		f.hang()
		first := make(chan error, 1)
		go func() { first <- c.Close() }()
		synctest.Wait()
		err := c.Close()
		assert.ErrorIs(t, err, ErrUnknown)
		assert.Equal(t, <-first, err)
		f.heal()
	})
}

func TestCloseRacesUnlock(t *testing.T) {
	for range 20 {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			var wg sync.WaitGroup
			var leases []*Lease
			for i := range 50 {
				l, err := c.Mutex(fmt.Sprint("k", i)).Lock(t.Context())
				require.NoError(t, err)
				leases = append(leases, l)
			}
			for _, l := range leases {
				wg.Go(func() { _ = l.Unlock(context.Background()) })
			}
			wg.Go(func() { c.Close() })
			wg.Wait()
		})
	}
}

func TestCloseWaitsForUnlockInProgress(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		l, err := c.Mutex("k", TTL(time.Hour)).Lock(t.Context())
		require.NoError(t, err)
		// the release takes 100 ms and its first try is refused
		var n atomic.Int32
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				first := n.Add(1) == 1
				time.Sleep(100 * time.Millisecond)
				if first {
					return driver.NewServerError("LOADING x")
				}
				return nil
			}
		})
		unlocked := make(chan error, 1)
		go func() { unlocked <- l.Unlock(context.Background()) }()
		synctest.Wait()
		err = c.Close()
		assert.True(t, err != nil || !f.Exists("k"), "Close: %v, Unlock: %v, and nobody will release the lock", err, <-unlocked)
	})
}

// What Close breaks off has not failed.
func TestCloseDuringARenewal(t *testing.T) {
	observe(t, func(t *testing.T, f *fakeDeployment, c *Client, s *seen) {
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		renewing := make(chan struct{})
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Args[1] == mutexFamily.renew.sha() {
					close(renewing)
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		<-renewing
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
		assert.ErrorIs(t, lease.Err(), ErrClosed)
		assert.NotErrorIs(t, lease.Err(), context.Canceled)
		assert.Empty(t, s.renewals)
	})
}

func TestCloseReleasesAlthoughAConnectionBreaks(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for i := range 3 {
			_, err := c.Mutex(fmt.Sprint("k", i)).Lock(t.Context())
			require.NoError(t, err)
		}
		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		assert.NoError(t, c.Close())
		assert.Empty(t, f.Keys())
	})
}

// What was never had needs no release: its places in queues are left for a moment only.
func TestCloseNamesOnlyWhatMayBeHeld(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		c := f.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan error)
		go func() {
			_, err := c.Mutex("k").Lock(ctx)
			done <- err
		}()
		synctest.Wait()
		f.hang()
		cancel()
		assert.ErrorIs(t, <-done, context.Canceled)
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.LessOrEqual(t, time.Since(begun), optionalTime)
		f.heal()
		assert.NoError(t, held.Unlock(t.Context()))
	})
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		mustPair(t, c.Mutex("first"))
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("refused")) }
		})
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				_, err := c.Mutex("k").Lock(ctx)
				assert.ErrorIs(t, err, ErrUnavailable)
			})
		}
		wg.Wait()
		begun := time.Now()
		assert.NoError(t, c.Close(), "nothing was ever sent")
		assert.Zero(t, time.Since(begun))
	})
}

// Close asks once more where a connection is silent.
func TestCloseOnASilentConnection(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(f)
		require.NoError(t, err)
		_, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		var hung atomic.Bool
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error {
				if hung.CompareAndSwap(false, true) {
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}
		})
		assert.NoError(t, c.Close())
		assert.False(t, f.Exists("k"))
	})
}

// A part of a Cluster that hangs does not keep Close from asking another again.
func TestCloseBesideAHungPart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(sharded{f})
		require.NoError(t, err)
		for _, name := range []string{"{good}", "{dead}"} {
			_, err = c.Mutex(name).Lock(t.Context())
			require.NoError(t, err)
		}
		begun := time.Now()
		refused := 0
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Keys()[0] == "{dead}" {
					<-ctx.Done()
					return ctx.Err()
				}
				if refused++; refused < 5 {
					return driver.NewServerError("TRYAGAIN")
				}
				assert.Less(t, time.Since(begun), time.Second)
				return nil
			}
		})
		assert.ErrorContains(t, c.Close(), `1 locks may not have been released`)
		assert.False(t, f.Exists("{good}"))
		f.heal()
		time.Sleep(time.Minute)
	})
}

// A server that is slow has the time that it would have for Unlock.
func TestCloseOnASlowServer(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		must(t, c.Mutex("k", AttemptTimeout(4*time.Second)))
		f.slow(2500 * time.Millisecond)
		require.NoError(t, c.Close())
		assert.False(t, f.Exists("k"))
		f.heal()
	})
}

// A slowConn is one whose requests end a while after it was closed.
type slowConn struct {
	*fakeConn
	closed chan struct{}
}

func (c *slowConn) Close() error {
	close(c.closed)
	return c.fakeConn.Close()
}

type slowConnector struct {
	*fakeDeployment
	closed chan struct{}
}

func (d slowConnector) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := d.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &slowConn{c.(*fakeConn), d.closed}, nil
}

// An Unlock that is under way when Close has waited for as long as it does is over soon after the connection
// is. What it has not released is named.
func TestCloseNamesWhatAnUnlockLeavesThatItBreaksOff(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		closed := make(chan struct{})
		c, err := New(slowConnector{f, closed}, AttemptTimeout(10*time.Second))
		require.NoError(t, err)
		first, second := must(t, c.Mutex("first")), must(t, c.Mutex("second"))
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Args[1] == mutexFamily.release.sha() && cmd.Keys()[0] == "first" {
					return nil
				}
				select {
				case <-closed:
				case <-ctx.Done():
				}
				time.Sleep(10 * time.Millisecond)
				return driver.NotSent(driver.ErrClosed)
			}
		})
		extended, unlocked := make(chan error, 1), make(chan error, 1)
		time.AfterFunc(closeTime-time.Second, func() { unlocked <- second.Unlock(t.Context()) })
		go func() { extended <- first.Extend(t.Context(), time.Minute) }()
		synctest.Wait()
		err = c.Close()
		assert.ErrorContains(t, err, "second")
		assert.ErrorIs(t, <-unlocked, ErrUnknown)
		<-extended
	})
}

// A lock that the server has given by a request that heeds no end, whose answer comes when Close has waited for as long
// as it does, is had by nobody. Close gives it back if it can, and names it if it cannot.
func TestCloseHandlesALockThatIsGivenTooLate(t *testing.T) {
	for _, late := range []time.Duration{time.Second / 2, 3 * time.Second / 2} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			f.set(func() {
				f.after = func(context.Context, driver.Command) error { f.heal(); time.Sleep(closeTime + late); return nil }
			})
			ended := lockEnds(t.Context(), c.Mutex("k"))
			synctest.Wait()
			err := c.Close()
			if f.Exists("k") {
				assert.ErrorIs(t, err, ErrUnknown)
				assert.ErrorContains(t, err, `"k"`)
			} else {
				assert.NoError(t, err)
			}
			assert.Equal(t, late > time.Second, f.Exists("k"))
			assert.ErrorIs(t, <-ended, ErrClosed)
		})
	}
}

// A lease may be unlocked when its client is closed, as by a deferred call: that waits for nothing but the server.
func TestUnlockAfterClose(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			lease := must(t, c.Mutex("k"))
			want, within := error(nil), time.Duration(0)
			if hangs {
				f.hang()
				want, within = ErrUnknown, releaseTime
			}
			require.ErrorIs(t, c.Close(), want)
			begun := time.Now()
			assert.ErrorIs(t, lease.Unlock(t.Context()), want)
			assert.Equal(t, within, time.Since(begun))
		})
	}
}

// Close has released the lock by a request whose reply was lost, and one that was not sent has followed: that the last one
// finds nothing is no loss.
func TestReleaseByCloseWhoseReplyWasLostIsNoLoss(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := must(t, c.Mutex("k"))
		releases := 0
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if releases++; releases == 2 {
					return driver.NotSent(errors.New("no route"))
				}
				return nil
			}
			f.after = once("EVALSHA", errLostReply)
		})
		require.NoError(t, c.Close())
		require.Equal(t, 3, releases)
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}

// What the background has not got done is done by Close: a release, for as long as it waits for one, and, in less time,
// the leaving of a queue.
func TestCloseDoesWhatIsLeftToTheBackground(t *testing.T) {
	for _, silent := range []time.Duration{optionalTime / 2, 2 * optionalTime} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			held := must(t, f.client(t).Mutex("waited for"))
			c := f.client(t)
			lease := must(t, c.Mutex("k"))
			ctx, cancel := context.WithTimeout(t.Context(), pollInterval/2)
			defer cancel()
			waiting := make(chan error)
			go func() { _, err := c.Mutex("waited for").Lock(ctx); waiting <- err }()
			time.Sleep(pollInterval / 4)
			require.True(t, f.Exists(held.mutex.keys.queue))
			f.set(func() { f.before = func(context.Context, driver.Command) error { return errLostReply } })
			require.ErrorIs(t, <-waiting, context.DeadlineExceeded)
			require.ErrorIs(t, lease.Unlock(ctx), ErrUnknown)
			time.AfterFunc(silent, f.heal)
			require.NoError(t, c.Close())
			assert.False(t, f.Exists("k"))
			if silent < optionalTime {
				assert.False(t, f.Exists(held.mutex.keys.queue))
			}
		})
	}
}

// An Unlock may come when Close has waited for those under way, and let go of what it could release itself. Where it leaves
// the release to the background, nobody but Close is there to make it.
func TestCloseDoesWhatAnUnlockBesideItLeavesToTheBackground(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "reentrant": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				lease := must(t, c.Mutex("k", opts...))
				renewing := make(chan struct{})
				f.set(func() {
					f.before = func(ctx context.Context, cmd driver.Command) error {
						if cmd.Args[1] != mutexFamily.renew.sha() && cmd.Args[1] != holdFamily.renew.sha() {
							return nil
						}
						close(renewing)
						<-ctx.Done() // by the end of the watchdog
						over, cancel := context.WithCancel(t.Context())
						cancel()
						assert.ErrorIs(t, lease.Unlock(over), ErrUnknown)
						return ctx.Err()
					}
				})
				<-renewing
				require.NoError(t, c.Close())
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

// A lingering connection's subscriptions take a second to close.
type lingering struct {
	*fakeConn
	open *atomic.Int32 // subscriptions
}

type lingeringSubscription struct {
	driver.Subscription
	open *atomic.Int32
}

func (c lingering) Subscribe(ctx context.Context) (driver.Subscription, error) {
	sub, err := c.fakeConn.Subscribe(ctx)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return lingeringSubscription{sub, c.open}, nil
}

func (s lingeringSubscription) Close() error {
	time.Sleep(time.Second)
	defer s.open.Add(-1)
	return s.Subscription.Close()
}

// No goroutine of the client is left when Close returns, so none that still listens, either.
func TestCloseWaitsForTheEndOfItsSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		held := must(t, f.client(t).Mutex("k"))
		var open atomic.Int32
		c, err := New(driver.NewConnector(f.Driver(), func(ctx context.Context) (driver.Conn, error) {
			conn, err := f.Connect(ctx)
			return lingering{conn.(*fakeConn), &open}, err
		}))
		require.NoError(t, err)
		_, err = c.Mutex("k", WaitTimeout(time.Second)).Lock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		require.EqualValues(t, 1, open.Load())
		require.NoError(t, c.Close())
		assert.Zero(t, open.Load())
		require.NoError(t, held.Unlock(t.Context()))
	})
}
