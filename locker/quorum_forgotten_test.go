package locker

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A lock stands at two nodes, one of which restarts empty. It is held.
func TestQuorumALockThatANodeHasForgottenIsNotShownAsFree(t *testing.T) {
	for _, opts := range [][]Option{{}, {Fenced()}, {Reentrant()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c, other := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
			meet(t, c)
			meet(t, other)
			nodes[2].down()
			lease := must(t, c.Mutex("k", opts...))
			everywhere()
			nodes[2].heal()
			nodes[1].FlushAll()
			status, err := other.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.True(t, lease.Valid())
			assert.True(t, status.Held())
			assert.Len(t, listed(t, other, ""), 1)
			holders, err := other.ForceRelease(t.Context(), "k")
			require.NoError(t, err)
			assert.Len(t, holders, 1)
			status, err = other.Inspect(t.Context(), "k")
			require.NoError(t, err)
			assert.False(t, status.Held(), "two nodes have forgotten nothing, and know nothing of it")
		})
	}
}

// The nodes restart empty one after another, while a lease is in force.
func TestQuorumInspectDuringARollingRestart(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c, other := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		meet(t, c)
		meet(t, other)
		lease := must(t, c.Mutex("k", TTL(time.Minute), NoRenewal()))
		everywhere()
		seen, err := other.Inspect(t.Context(), "k")
		require.NoError(t, err)
		for _, f := range nodes[1:] {
			f.FlushAll()
			time.Sleep(10 * time.Second)
			status, err := other.Inspect(t.Context(), "k")
			require.NoError(t, err)
			assert.True(t, status.Held())
		}
		nodes[0].FlushAll()
		require.True(t, lease.Valid())
		for _, name := range []string{"k", "another"} {
			_, err := other.Inspect(t.Context(), name)
			assert.ErrorIs(t, err, ErrUnavailable)
			assert.ErrorContains(t, err, "for 1m0s more", "the second node is the last but one")
			_, err = other.ForceRelease(t.Context(), name)
			assert.NotErrorIs(t, err, ErrAbsent)
			assert.ErrorIs(t, err, ErrUnavailable)
			assert.NotErrorIs(t, err, ErrUnknown, "it has looked, and ended nothing")
		}
		_, err = other.ForceReleaseFrom(t.Context(), "k", seen.Holders...)
		assert.NotErrorIs(t, err, ErrAbsent)
		assert.ErrorIs(t, err, ErrUnknown)
		assert.ErrorIs(t, err, ErrUnavailable)
		<-lease.Context().Done()
		time.Sleep(DefaultLongestTTL)
		status, err := other.Inspect(t.Context(), "k")
		require.NoError(t, err, "to look begins the quarantine")
		assert.False(t, status.Held())
		_, err = other.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrAbsent)
	})
}

// List tells all that the nodes know, and that this is not all there is.
func TestQuorumListDuringARollingRestart(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		must(t, c.Mutex("a"))
		must(t, c.Mutex("b", ForWriting()))
		everywhere()
		nodes[0].FlushAll()
		assert.Len(t, listed(t, c, ""), 2)
		nodes[1].FlushAll()
		require.NoError(t, nodes[2].Set("a0", "no lock, for all that is known, nor known to be none")) // between the others
		var names []string
		var ended error
		for found, err := range c.List(t.Context(), "") {
			if ended = err; err == nil {
				names = append(names, found.Name)
			}
		}
		assert.ElementsMatch(t, []string{"a", "b"}, names)
		assert.ErrorIs(t, ended, ErrUnavailable)
		assert.ErrorContains(t, ended, "takes no part for 1m0s more")
	})
}

// Nobody knows whether nodes are new or have lost their data, but for who has said so.
func TestQuorumAdministratorsOfNewNodes(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{Bootstrap: true})
		status, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.False(t, status.Held())
		assert.Empty(t, listed(t, c, ""))
		_, err = c.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrAbsent)
		nodes[0].down()
		_, err = c.Inspect(t.Context(), "k")
		assert.ErrorIs(t, err, ErrUnavailable, "it may not be new")
		nodes[0].heal()
		nodes[:1].established()
		_, err = c.Inspect(t.Context(), "k")
		assert.ErrorIs(t, err, ErrUnavailable, "it is not, so that the others have lost their data")
		assert.ErrorIs(t, failure(t, t.Context(), c), ErrUnavailable)
	})
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{})
		for range 2 {
			_, err := c.Inspect(t.Context(), "k")
			vote, ok := errors.AsType[*QuorumError](err)
			require.True(t, ok, "%v", err)
			require.Len(t, vote.Votes, 3)
			assert.ErrorContains(t, vote.Votes[0].Err, "the node is new, or has lost its data")
			assert.ErrorIs(t, failure(t, t.Context(), c), ErrUnavailable)
			time.Sleep(DefaultLongestTTL / 2)
		}
		synctest.Wait()
		_, err := c.Inspect(t.Context(), "k")
		assert.NoError(t, err)
		assert.Empty(t, listed(t, c, ""))
	})
}

// List begins the quarantine of a node without a marker, also where there are no keys.
func TestListBeginsTheQuarantine(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{})
		list := func() (ended error) {
			for _, err := range c.List(t.Context(), "") {
				ended = err
			}
			return ended
		}
		require.ErrorIs(t, list(), ErrUnavailable)
		time.Sleep(DefaultLongestTTL + time.Second)
		assert.NoError(t, list())
	})
}

// The nodes know LongestTTL in whole milliseconds.
func TestInspectBeginsTheQuarantineOfAnOddTime(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{LongestTTL: time.Minute + 500*time.Microsecond})
		_, err := c.Inspect(t.Context(), "k")
		require.ErrorIs(t, err, ErrUnavailable)
		time.Sleep(time.Minute + time.Second)
		_, err = c.Inspect(t.Context(), "k")
		assert.NoError(t, err)
	})
}
