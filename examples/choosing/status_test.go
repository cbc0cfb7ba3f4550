package choosing

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
)

func TestStatus(t *testing.T) {
	server := miniredis.RunT(t)
	url := "redis://" + server.Addr()
	open := func(opts ...locker.ClientOption) *locker.Client {
		c, err := locker.Open("redigo", url, opts...)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		return c
	}
	ctx, c := t.Context(), open()
	nothing := func(context.Context) error { return nil }
	assert.Equal(t, http.StatusOK, Status(c.Do(ctx, "user:1", nothing)))
	assert.Equal(t, http.StatusInternalServerError, Status(c.Do(ctx, "user:1", func(context.Context) error { return errors.New("work's own") })))

	other := open()
	held, err := other.Mutex("user:2").Lock(ctx)
	require.NoError(t, err)
	_, err = c.Mutex("user:2").TryLock(ctx)
	assert.Equal(t, http.StatusConflict, Status(err))

	// To a client that is full, and to one that is closed while it waits, it is locked as well.
	busy, ended := open(locker.MaxWaiters(1)), make(chan error)
	go func() { ended <- busy.Do(ctx, "user:2", nothing) }()
	require.Eventually(t, func() bool { return len(busy.Snapshot().Waiters) > 0 }, 10*time.Second, time.Millisecond)
	err = busy.Do(ctx, "user:2", nothing)
	assert.ErrorIs(t, err, locker.ErrLocked)
	assert.Equal(t, http.StatusServiceUnavailable, Status(err))
	require.NoError(t, busy.Close())
	err = <-ended
	assert.ErrorIs(t, err, locker.ErrLocked)
	assert.Equal(t, http.StatusServiceUnavailable, Status(err))
	require.NoError(t, held.Unlock(ctx))

	err = c.Do(ctx, "user:3", func(ctx context.Context) error {
		_, err := other.ForceRelease(ctx, "user:3")
		return err
	})
	assert.Equal(t, http.StatusInternalServerError, Status(err), "%v", err)
	assert.Equal(t, http.StatusInternalServerError, Status(errors.Join(locker.ErrUnknown, locker.ErrUnavailable)), "a release that was not answered")

	require.NoError(t, c.Close())
	require.NoError(t, other.Close())
	server.Close()
	assert.Equal(t, http.StatusServiceUnavailable, Status(open().Do(ctx, "user:4", nothing)))
}
