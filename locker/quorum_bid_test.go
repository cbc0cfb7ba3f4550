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

// meetAt lets the client get to know the nodes that are asked first for the lock, so that they
// are led up to.
func meetAt(t *testing.T, c *Client, name string) {
	t.Helper()
	for range 3 {
		require.NoError(t, must(t, c.Mutex(name)).Unlock(t.Context()))
		time.Sleep(10 * restPause)
		synctest.Wait()
	}
}

// The nodes give the lock by SET, and cannot be reached any more when they are to be asked for their markers, by
// a driver that makes no batches. It is not said that nothing was sent, and nothing stays.
func TestQuorumThatHasSentSetDoesNotSayThatNothingWasSent(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		order := c.quorum.order("k")
		nodes[order[2]].down()
		for _, i := range order[:2] {
			f := nodes[i]
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if cmd.Name() == "GET" || isAcquire(cmd) && !isSet(cmd) {
						return driver.NotSent(errors.New("connection refused"))
					}
					return nil
				}
			})
		}
		_, err := c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		assert.NotEqual(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// Nor where it turns out meanwhile that the nodes make no quorum: one has given the lock, and says besides that it is new.
func TestQuorumThatIsNoneAndHasSentSetDoesNotSayThatNothingWasSent(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		order := c.quorum.order("k")
		nodes[order[0]].reset()
		require.NoError(t, nodes[order[0]].Set(markerKey, "another"))
		f := nodes[order[1]]
		f.set(func() {
			f.before = func(_ context.Context, cmd driver.Command) error {
				return driver.NewServerError("MOVED 1 127.0.0.1:7000")
			}
		})
		_, err := c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		require.Contains(t, nodes[order[0]].commands(), "SET")
		assert.NotEqual(t, driver.OutcomeNotSent, driver.OutcomeOf(err), "%v", err)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// What ends a lease, or an attempt, overtakes the SET on the way to a slow node. It is put to
// the node again: else that would keep the lock for a whole TTL.
func TestQuorumNodeThatExecutesSetLateKeepsNothing(t *testing.T) {
	bubble := func(name string, run func(t *testing.T, nodes fakeQuorum, c *Client)) {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meetAt(t, c, "k")
				slow := nodes[c.quorum.order("k")[0]]
				slow.reset()
				slow.late(isSet)
				run(t, nodes, c)
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k"))
				assert.Contains(t, slow.commands(), "SET")
			})
		})
	}
	bubble("Unlock", func(t *testing.T, nodes fakeQuorum, c *Client) {
		lease := must(t, c.Mutex("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		assert.Zero(t, nodes.holding("k"), "it is yet to come")
	})
	bubble("Close", func(t *testing.T, nodes fakeQuorum, c *Client) {
		must(t, c.Mutex("k"))
		require.NoError(t, c.Close())
	})
	bubble("Unlock and Close", func(t *testing.T, nodes fakeQuorum, c *Client) {
		lease := must(t, c.Mutex("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, c.Close())
	})
	bubble("TryLock in vain", func(t *testing.T, nodes fakeQuorum, c *Client) {
		order := c.quorum.order("k")
		for _, place := range order[1:3] {
			nodes[place].Set("k", record(newID(), millis(time.Minute), "somebody|"))
		}
		_, err := c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		for _, place := range order[1:3] {
			nodes[place].Del("k")
		}
	})
	bubble("Lock until ctx ends", func(t *testing.T, nodes fakeQuorum, c *Client) {
		for _, f := range nodes {
			f.late(isSet)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := c.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// A lease that is held keeps what a slow node has given late.
func TestQuorumNodeThatExecutesSetLateIsKept(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		nodes[c.quorum.order("k")[0]].late(isSet)
		lease := must(t, c.Mutex("k"))
		time.Sleep(time.Second)
		assert.Equal(t, 3, nodes.holding("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// What is put to the node again does not get before the release that is under way there: that would
// find nothing, and the lease seem to have been lost.
func TestQuorumReleaseIsNotOvertakenByItsOwnRepetition(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		order := c.quorum.order("k")
		slow, freed, last := nodes[order[0]], nodes[order[2]], nodes[order[4]]
		free, first := new(atomic.Bool), true
		for _, place := range order[2:5] {
			nodes[place].Set("k", record(newID(), millis(time.Minute), "somebody|"))
		}
		last.set(func() {
			last.before = func(context.Context, driver.Command) error {
				if free.CompareAndSwap(false, true) {
					freed.Del("k") // when a majority has said that the lock is not free
				}
				return nil
			}
		})
		slow.set(func() {
			slow.before = func(ctx context.Context, cmd driver.Command) error {
				switch {
				case cmd.Name() == "GET": // the marker, behind SET
					return wait(100*time.Millisecond)(ctx, cmd)
				case mutexFamily.release.runs(cmd) && first:
					first = false
					return wait(150*time.Millisecond)(ctx, cmd)
				}
				return nil
			}
		})
		lease := must(t, c.Mutex("k"))
		require.True(t, lease.tenure.rest.bid.isLate())
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, 2, nodes.holding("k"), "that of somebody else")
	})
}
