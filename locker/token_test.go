package locker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFencedReentryToAnUnfencedHoldHasAToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, owner := f.client(t), As(NewOwner())
		_, err := c.Mutex("k", Reentrant(), owner).Lock(t.Context())
		require.NoError(t, err)
		lease, err := c.Mutex("k", Reentrant(), owner, Fenced()).Lock(t.Context())
		require.NoError(t, err)
		assert.NotZero(t, lease.Token())
	})
}

func TestTakingAFencedHoldUpDrawsATokenWhoeverDoes(t *testing.T) {
	for _, opts := range [][]Option{nil, {Reentrant()}, {ForWriting()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			lease, err := c.Mutex("k", append(opts, Fenced())...).Lock(t.Context())
			require.NoError(t, err)
			id, err := lease.Detach(t.Context(), time.Second)
			require.NoError(t, err)
			taken, err := c.Mutex("k", opts...).Attach(t.Context(), id)
			require.NoError(t, err)
			assert.Greater(t, taken.Token(), lease.Token())
		})
	}
}
