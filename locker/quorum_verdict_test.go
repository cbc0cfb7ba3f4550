package locker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Two leases that were taken just now stand at two nodes each, not the same. The release of
// both asks all nodes; the one that has nothing of a lease says nothing about it.
func TestQuorumNodesThatWereNotGivenALockDoNotConfirmItsRelease(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		order := c.quorum.order("k")
		other := ""
		for i := 0; other == ""; i++ {
			if name := fmt.Sprint(i); c.quorum.order(name)[2] != order[2] {
				other = name
			}
		}
		must(t, c.Mutex("k"))
		must(t, c.Mutex(other))
		nodes[order[0]].hang()
		nodes[order[1]].hang()
		err := c.Close()
		assert.Equal(t, 2, nodes.holding("k"))
		assert.ErrorIs(t, err, ErrUnknown)
		assert.ErrorContains(t, err, `"k"`)
	})
}

// A node has something foreign at the key, another refuses connections for a second.
func TestQuorumAForeignValueAtAMinorityIsNoAnswerInAnOutage(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		nodes[0].HSet("k", "foreign", "x")
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()), "the others are enough")
		nodes[1].down()
		time.AfterFunc(time.Second, nodes[1].heal)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := c.Mutex("k").Lock(ctx)
		assert.NoError(t, err)
	})
}

// A lock is held at two nodes and something foreign stands at the third. Nobody is told to delete
// that when one of the two cannot be asked.
func TestQuorumInspectSeesALockBesideAForeignValue(t *testing.T) {
	for kind, put := range map[string]func(f *fakeDeployment){
		"string": func(f *fakeDeployment) { f.Set("k", "foreign") },
		"list":   func(f *fakeDeployment) { f.Push("k", "foreign") },
	} {
		t.Run(kind, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				put(nodes[1])
				c := nodes.client(t, QuorumConfig{})
				lease := must(t, c.Mutex("k"))
				everywhere()
				nodes[0].down()
				status, err := c.Inspect(t.Context(), "k")
				require.NoError(t, err)
				assert.True(t, lease.Valid())
				assert.True(t, status.Held())
			})
		})
	}
}

// A detached lease stands at two nodes, one of which refuses connections for a moment.
func TestQuorumADetachedLeaseIsNotAbsentInAnOutage(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		id, err := must(t, c.Mutex("k")).Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		nodes[2].FlushAll()
		nodes[1].down()
		_, err = c.Mutex("k").Attach(t.Context(), id)
		assert.NotErrorIs(t, err, ErrAbsent)
		assert.ErrorIs(t, err, ErrUnavailable)
		nodes[1].heal()
		synctest.Wait()
		_, err = c.Mutex("k").Attach(t.Context(), id)
		assert.NoError(t, err, "it was there all the time")
	})
}

// One node has lost its data, another hangs for a moment. The lease is valid: its renewals
// are not refused.
func TestQuorumALockThatMayBeHeldIsNotShownAsFree(t *testing.T) {
	for _, opts := range [][]Option{{}, {Reentrant()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			meet(t, c)
			lease := must(t, c.Mutex("k", opts...))
			everywhere()
			nodes[2].FlushAll()
			nodes[0].hang()
			shown, err := c.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.True(t, lease.Valid())
			assert.True(t, shown.Held())
			_, err = c.ForceRelease(t.Context(), "k")
			assert.NoError(t, err, "it has been deleted")
		})
	}
}

// The answers of a majority are enough when the caller has no more time.
func TestQuorumAdministratorsNeedNotWaitForAMinority(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 5 * time.Second})
		meet(t, c)
		must(t, c.Mutex("k"))
		everywhere()
		nodes[0].hang()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		shown, err := c.Inspect(ctx, "k")
		require.NoError(t, err)
		assert.True(t, shown.Held())

		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		holders, err := c.ForceRelease(ctx, "k")
		require.NoError(t, err)
		assert.Len(t, holders, 1)
	})
}
