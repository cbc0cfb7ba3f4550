package locker

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever wants a token is told that somebody has written to where the last one is kept. Who holds the lock, and has one,
// goes on, as on one server.
func TestQuorumLeaseIsNotLostByABrokenCounter(t *testing.T) {
	withoutRaceDetector(t)
	for _, opts := range [][]Option{{Fenced()}, {Reentrant(), Fenced()}, {ForWriting(), Fenced()}} {
		for _, counter := range []string{"abc", "-1", "9007199254740991", "a hash"} {
			t.Run(fmt.Sprintf("%d options, %s", len(opts), counter), func(t *testing.T) {
				quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
					nodes.established()
					m := nodes.client(t, QuorumConfig{}).Mutex("k", opts...)
					lease := must(t, m)
					everywhere()
					for _, f := range nodes {
						f.Del(m.keys.fence)
						if counter == "a hash" {
							f.HSet(m.keys.fence, "field", "value")
						} else {
							require.NoError(t, f.Set(m.keys.fence, counter))
						}
					}
					time.Sleep(10 * DefaultTTL)
					require.NoError(t, lease.Extend(t.Context(), DefaultTTL))
					assert.NoError(t, lease.Err())
					require.NoError(t, lease.Unlock(t.Context()))
					synctest.Wait()
					_, err := m.TryLock(t.Context())
					assert.ErrorIs(t, err, ErrForeign)
				})
			})
		}
	}
}

// It is told which nodes that is about.
func TestQuorumBrokenCounterTellsWhere(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		m := nodes.client(t, QuorumConfig{}).Mutex("k", Fenced())
		for _, i := range []int{0, 2, 4} {
			require.NoError(t, nodes[i].Set(m.keys.fence, "abc"))
		}
		_, err := m.TryLock(t.Context())
		require.ErrorIs(t, err, ErrForeign)
		assert.ErrorContains(t, err, `the keys of "k" on node 0, node 2, node 4 what`)
	})
}

// The largest token that there is can be had, and the lease that has it lasts. The nodes give no other one.
func TestQuorumLastTokenOfAll(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		m := nodes.client(t, QuorumConfig{}).Mutex("k", ForWriting(), Fenced())
		for _, f := range nodes {
			require.NoError(t, f.Set(m.keys.fence, "9007199254740990"))
		}
		lease := must(t, m)
		assert.EqualValues(t, Token(1<<53-1), lease.Token())
		time.Sleep(10 * DefaultTTL)
		assert.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		_, err := m.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrForeign)
	})
}

// It can be had also where the nodes have to agree on it, and one of those that draw it is needed for that.
func TestQuorumAgreesOnTheLastTokenOfAll(t *testing.T) {
	for _, opts := range [][]Option{{Fenced()}, {ForWriting(), Fenced()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			m := nodes.client(t, QuorumConfig{}).Mutex("k", opts...)
			require.NoError(t, nodes[0].Set(m.keys.fence, "9007199254740990"))
			nodes[2].down()
			lease := must(t, m)
			assert.EqualValues(t, Token(1<<53-1), lease.Token())
			time.Sleep(10 * DefaultTTL)
			assert.NoError(t, lease.Err())
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}
