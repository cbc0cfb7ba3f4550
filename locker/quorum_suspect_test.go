package locker

import (
	"context"
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
		assert.Positive(t, c.quorum.nodes[2].rank(), "it is asked last")
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
		assert.Zero(t, c.quorum.nodes[0].behind.Load(), "for the next time")
	})
}

// So is one for which so much waits, but for what callers wait for as well: as many of them may be there at once.
func TestQuorumNodeForWhichMuchWaitsIsSuspect(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		q.nodes[0].asked.Store(maxLate + 1)
		assert.True(t, q.nodes[0].suspect())
		q.polls.Store(1)
		assert.False(t, q.nodes[0].suspect())
	})
}

// What has waited for a node until its time was up is not sent, nor is what need not be by now, and both are said not to have
// been. A node that has been sent nothing owes no answer.
func TestQuorumWhatWaitedForANodeInVainIsNotSent(t *testing.T) {
	for name, c := range map[string]struct {
		moot   bool
		others int32 // are waiting for the node, too
	}{"late": {}, "moot": {moot: true}, "moot, beside others": {true, 1}} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				q := nodes.client(t, QuorumConfig{}).quorum
				n := q.nodes[0]
				var heard driver.Result
				r := newRound(q, question{calls: make([]call, 1), moot: new(atomic.Bool)}, func(_ int, answers []driver.Result) bool {
					heard = answers[0]
					return true
				})
				r.in.moot.Store(c.moot)
				n.asked.Store(1 + c.others)
				n.owed.Store(r.in.ctx)
				time.Sleep(DefaultNodeTimeout)
				synctest.Wait()
				assert.Empty(t, n.unsettled([]inquiry{r.in}))
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(heard.Err))
				assert.NotErrorIs(t, heard.Err, context.DeadlineExceeded, "it is not the caller's")
				assert.Equal(t, c.moot && c.others == 0, !n.silent())
				assert.Equal(t, c.others, n.asked.Load())
			})
		})
	}
}

// A decision does without the worst of the suspect nodes, and never without a majority.
func TestQuorumSparesTheWorstOfAMinority(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		for i, behind := range []int32{3, 9, 5, 1, 7} {
			q.nodes[i].behind.Store(behind)
			q.nodes[i].asked.Store(maxLate + 1)
		}
		assert.Equal(t, only(1)|only(4), q.spared())
		q.nodes[4].asked.Store(0)
		assert.Equal(t, only(1)|only(2), q.spared())
	})
}
