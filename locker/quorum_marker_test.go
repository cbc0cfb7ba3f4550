package locker

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What somebody has written to the key of a node's marker is none, of whatever type it is: the node is as one that has lost its
// data. Else it would be left out for good, and nothing would tell.
func TestQuorumMarkerOfAnotherTypeIsNone(t *testing.T) {
	for name, opts := range owedKinds {
		for _, met := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, the markers were known: %v", name, met), func(t *testing.T) {
				quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
					nodes.established()
					c := nodes.client(t, QuorumConfig{})
					m := c.Mutex("k", opts...)
					if met {
						meetAt(t, c, "k")
					}
					for _, f := range nodes[:2] {
						f.Del(markerKey)
						f.HSet(markerKey, "field", "value")
					}
					_, err := m.TryLock(t.Context())
					require.ErrorIs(t, err, ErrUnavailable)
					assert.NotErrorIs(t, err, ErrForeign, "nobody has written to the keys of the lock")
					votes, ok := errors.AsType[*QuorumError](err)
					require.True(t, ok)
					synctest.Wait()
					assert.Zero(t, nodes.holding("k"))
					for i := range nodes[:2] {
						assert.ErrorAs(t, votes.Votes[i].Err, new(errNew))
						assert.ErrorAs(t, c.Nodes()[i].Err, new(errNew))
					}
					_, err = c.Inspect(t.Context(), "k")
					assert.ErrorIs(t, err, ErrUnavailable)
					time.Sleep(DefaultLongestTTL)
					lease := must(t, m)
					everywhere()
					assert.Equal(t, 3, nodes.holding("k"))
					require.NoError(t, lease.Unlock(t.Context()))
				})
			})
		}
	}
}
