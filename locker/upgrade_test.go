package locker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWriterWhoReadsTooStaysAloneWhenOthersEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		owner := As(NamedOwner("job"))
		read, write := f.sides(t)
		reading, err := f.client(t).Mutex("k", ForReading(), owner).Lock(t.Context())
		require.NoError(t, err)
		writing, err := reading.Upgrade(t.Context())
		require.NoError(t, err)

		// Another one gives up to wait, and a hold of the writer's own ends.
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err = write.Lock(ctx)
		assert.ErrorIs(t, err, ErrLocked)
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "a waiter has given up")
		again, err := f.client(t).Mutex("k", ForReading(), owner).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, again.Unlock(t.Context()))
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "a hold for reading has ended")

		require.True(t, writing.Valid())
		require.NoError(t, writing.Unlock(t.Context()))
		other, err := read.TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, other.Unlock(t.Context()))
		require.NoError(t, reading.Unlock(t.Context()))
		assert.False(t, f.Exists("k"))
	})
}
