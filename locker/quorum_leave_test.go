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

// deaf makes every request to a node take until the returned channel is closed, whatever
// becomes of its context: so does a client that package aside runs in the caller's
// goroutine, because a quorum leaves that.
func (f *fakeDeployment) deaf() chan struct{} {
	wake := make(chan struct{})
	f.set(func() {
		f.before = func(context.Context, driver.Command) error { <-wake; return errors.New("too late") }
	})
	return wake
}

// Calls that do not end when their time is up are left: those behind them go on, their
// places are free again, and Close does not wait for them.
func TestQuorumLeavesCallsThatHeedNoEnd(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 100 * time.Millisecond})
		pair := func() {
			lease := must(t, c.Mutex("k"))
			time.Sleep(200 * time.Millisecond) // so that all nodes are asked
			require.NoError(t, lease.Unlock(t.Context()))
		}
		pair()
		first, second := c.quorum.order("k")[0], c.quorum.order("k")[1]
		wake := nodes[first].deaf()
		for range 10 * nodeRequests {
			pair()
		}
		assert.ErrorIs(t, c.Nodes()[first].Err, context.DeadlineExceeded, "said while the call is still out")

		nodes[first].heal()               // for new requests; the old ones are still out
		for c.Nodes()[first].Err != nil { // the test times out if it is not asked any more
			pair()
		}

		out := nodes[second].deaf()
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err, "two others are left")
		require.NoError(t, lease.Unlock(t.Context()))
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.LessOrEqual(t, time.Since(begun), 2*100*time.Millisecond)
		close(wake)
		close(out)
		synctest.Wait()
	})
}

// An answer that comes when its call was left is nobody's: the lock it gave is released.
func TestQuorumReleasesWhatALeftCallTook(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 100 * time.Millisecond})
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		wake := make(chan struct{})
		for _, f := range nodes[:2] {
			f.set(func() {
				f.after = func(context.Context, driver.Command) error { <-wake; return nil }
			})
		}
		_, err := c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		for _, f := range nodes {
			f.heal()
		}
		close(wake)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}
