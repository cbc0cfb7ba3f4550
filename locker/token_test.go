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

// Its renewals keep that token for as long as those of a fenced lease do.
func TestRenewalsOfAFencedHoldThatWasTakenUpKeepItsToken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, TTL(2*time.Hour))
		id, err := must(t, c.Mutex("k", Fenced())).Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		taken, err := c.Mutex("k").Attach(t.Context(), id)
		require.NoError(t, err)
		time.Sleep(fenceRetention + time.Minute)
		require.NoError(t, taken.Err())
		assert.Greater(t, f.TTL(taken.mutex.keys.fence), fenceRetention/2)
	})
}

// The last token is kept for as long as the longest lease asks for, though the owner has taken the lock in
// another process since, for less.
func TestAShorterReentryKeepsTheTokenForAsLong(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		job := As(NamedOwner("job"))
		long := must(t, f.client(t).Mutex("k", Reentrant(), Fenced(), job, NoRenewal(), TTL(2*fenceRetention)))
		short := must(t, f.client(t).Mutex("k", Reentrant(), Fenced(), job, TTL(time.Minute)))
		assert.Greater(t, short.Token(), long.Token())
		assert.Equal(t, 4*fenceRetention, f.TTL(long.mutex.keys.fence))
	})
}
