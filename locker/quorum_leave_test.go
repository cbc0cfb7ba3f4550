package locker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// deaf makes every request to a node take until the returned channel is closed, whatever
// becomes of its context: so does a client that package aside runs in the caller's
// goroutine, because a quorum leaves that. What a quorum does not leave heeds its end.
func (f *fakeDeployment) deaf() chan struct{} {
	wake := make(chan struct{})
	f.set(func() {
		f.before = func(ctx context.Context, _ driver.Command) error {
			end := ctx.Done()
			if _, left := ctx.(interface{ Aside() }); left {
				end = nil
			}
			select {
			case <-wake:
				return errors.New("too late")
			case <-end:
				return ctx.Err()
			}
		}
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
		assert.Error(t, c.Nodes()[first].Err, "said while the call is still out")

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

// Inquiries whose times end at different moments may share a request, in any order. It
// lasts as long as the latest, and all are told why it ended.
func TestQuorumLeavesWhenTheLatestTimeIsUp(t *testing.T) {
	for _, latestFirst := range []bool{false, true} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{NodeTimeout: 800 * time.Millisecond})
			require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
			q, n := c.quorum, c.quorum.nodes[0]
			defer close(nodes[0].deaf())
			begun := time.Now()
			var said []error
			show := func(_ int, answers []driver.Result) bool {
				said = append(said, answers[0].Err)
				return true
			}
			ask := question{calls: []call{native("GET", "k")}}
			batch := []inquiry{newRound(q, ask, show).in}
			time.Sleep(100 * time.Millisecond)
			batch = append(batch, newRound(q, ask, show).in)
			if latestFirst {
				slices.Reverse(batch)
			}
			n.asked.Add(2)
			n.pipeline.senders.Add(1)
			n.pipeline.wg.Add(1)
			go n.request(batch)
			n.pipeline.wg.Wait()
			assert.Equal(t, 900*time.Millisecond, time.Since(begun))
			require.Len(t, said, 2)
			for _, err := range said {
				assert.ErrorContains(t, err, "no reply in time")
				assert.NotErrorIs(t, err, context.DeadlineExceeded, "it is not the caller's")
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			}
		})
	}
}

// What a driver says late is told where it explains more: it could not connect.
func TestQuorumTellsWhyANodeCannotBeReached(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 100 * time.Millisecond})
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		unreachable := driver.NotSent(errors.New("dial: i/o timeout"))
		nodes[1].set(func() {
			nodes[1].before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return unreachable }
		})
		lease := must(t, c.Mutex("k"))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.ErrorIs(t, c.Nodes()[1].Err, unreachable)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A node that answers when the others have decided is not behind.
func TestQuorumNodeThatAnswersAfterTheDecisionIsNotBehind(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		r := newRound(q, question{calls: []call{native("GET", "k")}}, func(int, []driver.Result) bool { return true })
		for i := range q.nodes {
			r.asked.add(i)
		}
		r.hear(0, []driver.Result{{}})
		r.hear(1, []driver.Result{{}}) // before the caller has come to look
		r.leaveBehind()
		assert.Zero(t, q.nodes[1].behind.Load())
		assert.EqualValues(t, 1, q.nodes[2].behind.Load())
	})
}
