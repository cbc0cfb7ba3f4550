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

// manyGivenUp makes the client one that has as much to clean up as it remembers: a few seconds
// of an outage with more than a thousand calls a second.
func manyGivenUp(c *Client) {
	c.watchdog.mu.Lock()
	defer c.watchdog.mu.Unlock()
	c.watchdog.cleanups = maxCleanups
}

// jobs is how many leases and cleanups the client has in its care.
func (c *Client) jobs() int {
	synctest.Wait()
	c.watchdog.mu.Lock()
	defer c.watchdog.mu.Unlock()
	return c.watchdog.jobs.len()
}

func TestReleaseAfterAnOutageWithManyCallsThatGaveUp(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k", TTL(time.Hour)).Lock(t.Context())
		require.NoError(t, err)
		f.hang()
		manyGivenUp(c)
		for range 3 {
			assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		}
		assert.Equal(t, 1, c.jobs(), "one cleanup, however often Unlock is called")
		f.heal()
		time.Sleep(cleanupPause)
		assert.False(t, f.Exists("k"), "held for %v more", f.TTL("k"))
		assert.NoError(t, lease.Unlock(t.Context()))
		assert.Zero(t, c.jobs())
		assert.NoError(t, c.Close())
	})
}

// What nobody will release is named by Close, unless it has lapsed by then.
func TestCloseNamesWhatWasNotCleanedUp(t *testing.T) {
	for _, later := range []time.Duration{0, time.Minute} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			mustPair(t, c.Mutex("first"))
			f.set(func() { f.after = func(context.Context, driver.Command) error { return errLostReply } })
			manyGivenUp(c)
			_, err := c.Mutex("orders").TryLock(t.Context())
			require.ErrorIs(t, err, ErrUnavailable)
			f.heal()
			require.True(t, f.Exists("orders"))
			time.Sleep(later)
			if err = c.Close(); later > 0 {
				assert.NoError(t, err)
				return
			}
			assert.ErrorIs(t, err, ErrUnknown)
			assert.ErrorContains(t, err, "orders")
		})
	}
}

// closedUnder returns a lease of c whose connection the application has closed.
func closedUnder(t *testing.T, f *fakeDeployment, c *Client) *Lease {
	t.Helper()
	lease, err := c.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	f.set(func() {
		f.before = func(context.Context, driver.Command) error { return driver.NotSent(driver.ErrClosed) }
	})
	return lease
}

// The application may close its Redis client before this one.
func TestCloseNamesWhatAClosedConnectionHasLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease := closedUnder(t, f, c)
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		assert.Zero(t, c.jobs(), "nothing can be sent any more")
		assert.ErrorContains(t, c.Close(), "orders")
	})
}

func TestCloseDoesNotWaitForAConnectionThatIsClosed(t *testing.T) {
	for _, test := range []struct {
		name   string
		before func(*testing.T, *Lease)
	}{
		{"held", func(*testing.T, *Lease) {}},
		{"Unlock was not sent", func(t *testing.T, l *Lease) { assert.ErrorIs(t, l.Unlock(t.Context()), ErrUnknown) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				test.before(t, closedUnder(t, f, c))
				begun := time.Now()
				assert.ErrorContains(t, c.Close(), "orders")
				assert.Less(t, time.Since(begun), 100*time.Millisecond)
			})
		})
	}
}

// A client of a Cluster may say that it is closed where only the connection to a node was that
// has left.
func TestCloseReleasesAlthoughOneRequestMetAClosedConnection(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("orders").Lock(t.Context())
		require.NoError(t, err)
		closed := false
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				if !closed {
					closed = true
					return driver.NotSent(driver.ErrClosed)
				}
				return nil
			}
		})
		assert.NoError(t, c.Close())
		assert.Empty(t, f.Keys())
	})
}

// unreleased leaves the background to release a lock during an outage.
func unreleased(t *testing.T, f *fakeDeployment, c *Client) {
	lease, err := c.Mutex("orders").Lock(t.Context())
	require.NoError(t, err)
	f.set(func() {
		f.before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
	})
	lease.giveBack()
}

// However soon the lock lapses: by then the pause may be longer than that takes.
func TestCloseNamesWhatTheBackgroundHasGivenUp(t *testing.T) {
	named := 0
	for before := 6900 * time.Millisecond; before > 0; before -= 400 * time.Millisecond {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			unreleased(t, f, c)
			time.Sleep(f.TTL("orders") - before)
			err := c.Close()
			if left := f.TTL("orders"); left > 0 {
				named++
				assert.ErrorContains(t, err, "orders", "held for %v more", left)
			}
		})
	}
	assert.Positive(t, named)
}

// The outage ends when the next try in its turn would come too late.
func TestReleaseIsTriedOnceMoreBeforeTheLockLapses(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		unreleased(t, f, c)
		time.Sleep(f.TTL("orders") - time.Second)
		f.heal()
		time.Sleep(900 * time.Millisecond)
		assert.False(t, f.Exists("orders"), "held for %v more", f.TTL("orders"))
		assert.NoError(t, c.Close())
	})
}

// In an outage that lasts it is tried more and more seldom: of such releases there may be very many.
func TestReleaseIsTriedMoreAndMoreSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease := must(t, f.client(t).Mutex("orders", TTL(10*time.Minute)))
		var tries atomic.Int32
		f.set(func() {
			f.before = func(context.Context, driver.Command) error {
				tries.Add(1)
				return driver.NotSent(errors.New("no route"))
			}
		})
		lease.giveBack()
		time.Sleep(time.Second)
		assert.InDelta(t, 7, tries.Load(), 2, "soon at first")
		time.Sleep(time.Minute)
		before := tries.Load()
		time.Sleep(time.Minute)
		assert.InDelta(t, float64(time.Minute/cleanupPause), tries.Load()-before, 1)
		f.heal()
	})
}

// Nobody is kept out by what a minority has not released.
func TestCloseNamesNothingThatMostNodesHaveReleased(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		lease, err := c.Mutex("orders").Lock(t.Context())
		require.NoError(t, err)
		everywhere()
		nodes[0].set(func() {
			nodes[0].before = func(context.Context, driver.Command) error { return driver.NotSent(errors.New("no route")) }
		})
		assert.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(2 * minorityTime)
		assert.NoError(t, c.Close())
	})
}

// Nor does Close wait for that minority, where it is Close that ends an attempt at the others.
func TestCloseEndsAnAttemptAtMostNodesAndWaitsForNoMore(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		for _, f := range nodes {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if mutexFamily.giveUp.runs(cmd) {
						return driver.NotSent(errors.New("no route"))
					}
					return nil
				}
				f.after = func(context.Context, driver.Command) error { return errLostReply }
			})
		}
		_, err := c.Mutex("orders").TryLock(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		synctest.Wait()
		require.Equal(t, 3, nodes.holding("orders"))
		nodes[1].heal()
		nodes[2].heal()
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.Less(t, time.Since(begun), time.Second)
		assert.Equal(t, 1, nodes.holding("orders"))
	})
}

// What is left of a detached lease, besides the lock, is a mark.
func TestCloseNamesNoDetachedLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		delayFirst(f)
		c := f.client(t)
		lease, err := c.Mutex("k", Fenced()).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() == "SET" {
					return errors.New("the connection broke")
				}
				return nil
			}
		})
		_, err = lease.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		require.Equal(t, 1, c.jobs())
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.LessOrEqual(t, time.Since(begun), optionalTime)
	})
}

// Nor a queue that was not left, in which nobody holds anything.
func TestCloseNamesNoQueueThatWasNotLeft(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		must(t, f.client(t).Mutex("k"))
		c := f.client(t)
		ended := lockEnds(within(t, pollInterval/2), c.Mutex("k"))
		time.Sleep(pollInterval / 4)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(driver.ErrClosed) }
		})
		require.ErrorIs(t, <-ended, ErrLocked)
		synctest.Wait()
		require.Zero(t, c.jobs(), "it is given up, as the application has closed its client")
		assert.NoError(t, c.Close())
	})
}

// But what a script that was refused midway may have taken is named, where it was not given up.
func TestCloseNamesWhatAScriptThatStoppedMidwayMayHaveTaken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.giveUp.runs(cmd) {
					return driver.NotSent(driver.ErrClosed)
				}
				return nil
			}
			f.after = func(_ context.Context, cmd driver.Command) error {
				if holdFamily.acquire.runs(cmd) {
					return driver.NewServerError("ERR The user executing the script can't run this command or subcommand")
				}
				return nil
			}
		})
		_, err := c.Mutex("orders", Reentrant()).TryLock(t.Context())
		require.ErrorIs(t, err, ErrPermission)
		synctest.Wait()
		assert.ErrorContains(t, c.Close(), "orders")
	})
}

// A lock that was missed twice is free when both leases have lapsed.
func TestCloseNamesALockUntilAllOfItsLeasesHaveLapsed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		c.missed("orders", time.Now().Add(time.Minute))
		c.missed("orders", time.Now().Add(time.Second))
		time.Sleep(2 * time.Second)
		assert.ErrorContains(t, c.Close(), "orders")
	})
}

func TestMissedLocksAreNotRememberedForEver(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		miss := func(n int) {
			for range n {
				c.missed(newID(), time.Now().Add(time.Second))
			}
		}
		miss(2 * maxMissed)
		assert.Len(t, c.unreleased, maxMissed)
		time.Sleep(time.Second)
		miss(1)
		assert.Len(t, c.unreleased, 1)
		time.Sleep(time.Second)
		require.NoError(t, c.Close())
	})
}

// A lease whose reply was lost is noted at the server when it is detached, with one request: not
// again and again for two TTLs, and not by Close.
func TestDetachedLeaseWhoseReplyWasLostIsNotedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		f.set(func() { f.after = once("SET", errLostReply) })
		lease, err := c.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		_, err = lease.Detach(t.Context(), time.Hour)
		require.NoError(t, err)
		assert.Zero(t, c.jobs())
		assert.True(t, f.Exists(lease.mutex.keys.over(lease.tenure.id)))
		f.reset()
		time.Sleep(time.Minute)
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
		assert.Empty(t, f.commands())
	})
}

// A cleanup that is over makes room for another.
func TestCleanupsThatAreOverAreNotCounted(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		must(t, f.client(t).Mutex("k"))
		for range 3 {
			require.ErrorIs(t, <-lockEnds(within(t, time.Second), c.Mutex("k")), ErrLocked)
		}
		synctest.Wait()
		c.watchdog.mu.Lock()
		defer c.watchdog.mu.Unlock()
		assert.Zero(t, c.watchdog.cleanups)
	})
}

// As many are remembered as may be, and each that is over then makes room for one.
func TestCleanupsAreBounded(t *testing.T) {
	w, cl := newWatchdog(newLink(nil)), new(cleanup)
	for range 2 {
		for range maxCleanups {
			require.True(t, w.countCleanup(cl, 1))
		}
		require.False(t, w.countCleanup(cl, 1))
		for range maxCleanups {
			w.countCleanup(cl, -1)
		}
	}
}

// A cleanup whose time is over asks for nothing more, and is over once.
func TestACleanupWhoseTimeIsOverAsksForNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, over := f.client(t), 0
		cl := &cleanup{client: c, call: native("GET", "k"), until: time.Now(), done: func() { over++ }}
		assert.Zero(t, cl.due(now()))
		assert.Equal(t, 1, over)
	})
}

// An Attach of which it is not known whether it has taken the lease is remembered only until that is put right,
// or is not any more.
func TestAttachesThatArePutRightAreForgotten(t *testing.T) {
	for name, crowd := range map[string]func(*Client){"cleaned up": func(*Client) {}, "not remembered": manyGivenUp} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				id, err := must(t, f.client(t).Mutex("k")).Detach(t.Context(), time.Minute)
				require.NoError(t, err)
				c := f.client(t)
				mustPair(t, c.Mutex("first"))
				f.hang()
				crowd(c)
				_, err = c.Mutex("k").Attach(within(t, time.Second), id)
				require.ErrorIs(t, err, ErrUnavailable)
				f.heal()
				time.Sleep(time.Minute)
				synctest.Wait()
				assert.Empty(t, c.attaching.ids)
			})
		})
	}
}
