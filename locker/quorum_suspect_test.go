package locker

import (
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

// apart returns a client whose last node is so far away, and the others close by.
func (q fakeQuorum) apart(t *testing.T, by time.Duration) *Client {
	t.Helper()
	var connectors []driver.Connector
	for _, f := range q[1:] {
		connectors = append(connectors, distant{f, time.Millisecond})
	}
	c, err := NewQuorum(append(connectors, distant{q[0], by}))
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	meet(t, c)
	return c
}

// However many locks the others decide while it answers one: a node that answers all in a
// fraction of NodeTimeout has the leases.
func TestQuorumSlowNodeTakesPartUnderLoad(t *testing.T) {
	withoutRaceDetector(t)
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.apart(t, 40*time.Millisecond)
		var lacking, suspect atomic.Int32
		var wg sync.WaitGroup
		for i := range 200 {
			time.Sleep(time.Millisecond)
			wg.Go(func() {
				for n := range 3 {
					name := fmt.Sprint("k", i, "-", n)
					lease := must(t, c.Mutex(name))
					time.Sleep(200 * time.Millisecond)
					if !nodes[0].Exists(name) {
						lacking.Add(1)
					}
					if c.Nodes()[2].Suspect {
						suspect.Add(1)
					}
					assert.NoError(t, lease.Unlock(t.Context()))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		assert.Zero(t, lacking.Load(), "of 600 leases")
		assert.Zero(t, suspect.Load())
	})
}

// That it was asked nothing for an hour does not make a node suspect which has not had the
// time to answer.
func TestQuorumIdleNodeIsNotSuspectAtOnce(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.apart(t, 100*time.Millisecond)
		time.Sleep(time.Hour)
		for range 2 * patience {
			require.NoError(t, must(t, c.Mutex("k", Reentrant())).Unlock(t.Context()))
			assert.False(t, c.Nodes()[2].Suspect)
		}
		assert.Greater(t, c.quorum.nodes[2].behind.Load(), int32(patience))
	})
}

// A node that hangs is suspect soon, and until it answers, whether it is asked or not.
func TestQuorumHungNodeIsSuspect(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		pair := func() {
			require.NoError(t, must(t, c.Mutex("k", Reentrant())).Unlock(t.Context()))
			time.Sleep(10 * time.Millisecond)
		}
		nodes[0].hang()
		begun := time.Now()
		for !c.Nodes()[0].Suspect {
			pair()
		}
		assert.Less(t, time.Since(begun), DefaultNodeTimeout*5/8)
		time.Sleep(time.Hour)
		assert.True(t, c.Nodes()[0].Suspect)
		nodes[0].heal()
		pair()
		assert.False(t, c.Nodes()[0].Suspect)
	})
}
