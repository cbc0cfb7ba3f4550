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

// far makes the connection to a node take so long, which is dropped if its request ends
// before it is made.
func (f *fakeDeployment) far(setup time.Duration) {
	var connected atomic.Bool
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			if connected.Load() {
				return nil
			}
			if err := wait(setup)(ctx, cmd); err != nil {
				return driver.NotSent(err)
			}
			connected.Store(true)
			return nil
		}
	})
}

// A connection takes several round trips, and each request NodeTimeout at most: that the
// nodes are far away costs the first tries, and not all of them.
func TestQuorumReachesNodesThatTakeLongToConnect(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 100 * time.Millisecond})
		for _, f := range nodes {
			f.far(4 * 100 * time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		lease, err := c.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(ctx))
		synctest.Wait()
		for _, node := range c.Nodes() {
			assert.NoError(t, node.Err)
		}
	})
}

// Beside the requests that a hung node does not answer there is one call more, however
// many they are, and it does not keep Close waiting.
func TestQuorumPreparesOneConnectionToANode(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 100 * time.Millisecond})
		meet(t, c)
		var now, most, all atomic.Int32
		nodes[0].set(func() {
			nodes[0].before = func(ctx context.Context, cmd driver.Command) error {
				if cmd.Name() == "PING" {
					all.Add(1)
					most.Store(max(most.Load(), now.Add(1)))
					defer now.Add(-1)
				}
				<-ctx.Done()
				return ctx.Err()
			}
		})
		for range 100 {
			lease := must(t, c.Mutex("k", Reentrant()))
			time.Sleep(200 * time.Millisecond)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assert.EqualValues(t, 1, most.Load(), "at a time")
		assert.InDelta(t, 20*time.Second/connectTime, all.Load(), 1)
		assert.Error(t, c.Nodes()[0].Err)
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.LessOrEqual(t, time.Since(begun), 100*time.Millisecond)
		assert.Zero(t, now.Load())
	})
}

// A node that refuses connections is not asked for more of them: clients keep count, and
// stop trying for a while.
func TestQuorumPreparesNoConnectionThatIsRefused(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		var pings atomic.Int32
		nodes[0].set(func() {
			nodes[0].before = func(_ context.Context, cmd driver.Command) error {
				if cmd.Name() == "PING" {
					pings.Add(1)
				}
				return driver.NotSent(errors.New("connection refused"))
			}
		})
		for range 10 {
			require.NoError(t, must(t, c.Mutex("k", Reentrant())).Unlock(t.Context()))
		}
		synctest.Wait()
		assert.Zero(t, pings.Load())
	})
}

// A darkNode is one to which a connection takes long if it was begun in the dark, where
// packets are dropped: they are sent again after a growing time.
type darkNode struct {
	*fakeDeployment
	dark atomic.Bool
	late atomic.Pointer[fakeConn]
}

func (d *darkNode) Connect(ctx context.Context) (driver.Conn, error) {
	if !d.dark.Load() {
		return d.fakeDeployment.Connect(ctx)
	}
	select {
	case <-time.After(connectTime / 2):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, err := d.fakeDeployment.Connect(ctx)
	d.late.Store(conn.(*fakeConn))
	return conn, err
}

// Requests do not wait for a connection that was begun in the background before the node came
// back, and the one that they make is not replaced by it.
func TestQuorumReachesANodeThatIsBackAtOnce(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		dark := &darkNode{fakeDeployment: nodes[0]}
		dark.dark.Store(true)
		const timeout = 200 * time.Millisecond
		c, err := NewQuorum([]driver.Connector{dark, nodes[1], nodes[2]}, QuorumConfig{NodeTimeout: timeout})
		require.NoError(t, err)
		defer c.Close()
		must(t, c.Mutex("first"))
		nodes[1].down()
		time.Sleep(2 * timeout)
		require.True(t, c.quorum.nodes[0].preparing.Load())
		dark.dark.Store(false)
		begun := time.Now()
		must(t, c.Mutex("k"))
		assert.Less(t, time.Since(begun), 2*timeout)
		open := c.quorum.nodes[0].open.Load()
		time.Sleep(connectTime)
		assert.Same(t, open, c.quorum.nodes[0].open.Load())
		late := dark.late.Load()
		require.NotNil(t, late)
		_, err = late.take()
		assert.ErrorIs(t, err, driver.ErrClosed, "what nobody needs is closed")
	})
}

// Two requests may find out at the same time which server a node is: it is not taken for its own double.
func TestQuorumNodeIsNotItsOwnDouble(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		n := nodes.client(t, QuorumConfig{}).quorum.nodes[0]
		conn, err := n.dial(t.Context())
		require.NoError(t, err)
		for range 2 {
			require.NoError(t, n.identify(t.Context(), conn.Conn))
			require.True(t, n.known.Swap(false))
		}
		assert.False(t, n.barred.Load())
	})
}
