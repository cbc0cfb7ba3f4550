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

// The largest token that there is can be had, and the lease that has it lasts. The nodes give no other one.
func TestQuorumLastTokenOfAll(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		m := nodes.client(t, QuorumConfig{}).Mutex("k", ForWriting(), Fenced())
		for _, f := range nodes {
			require.NoError(t, f.Set(m.keys.fence, "9007199254740990"))
		}
		lease := must(t, m)
		assert.EqualValues(t, 1<<53-1, lease.Token())
		time.Sleep(10 * DefaultTTL)
		assert.NoError(t, lease.Err())
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		_, err := m.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrForeign)
	})
}
