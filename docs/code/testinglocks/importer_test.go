package testinglocks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) {
	logging.Disable()
	goleak.VerifyTestMain(m)
}

// newLocks returns a client on the server, as another process would have it.
func newLocks(t *testing.T, server *miniredis.Miniredis) *locker.Client {
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { rdb.Close() })
	locks, err := locker.New(goredis.Wrap(rdb))
	require.NoError(t, err)
	t.Cleanup(func() { locks.Close() })
	return locks
}

func TestImports(t *testing.T) {
	server := miniredis.RunT(t)
	var stored []string
	importer := &Importer{
		Locks: newLocks(t, server),
		Fetch: func(context.Context) ([]string, error) { return []string{"a", "b"}, nil },
		Store: func(_ context.Context, rows []string, token locker.Token) error {
			stored = rows
			assert.Positive(t, token)
			return nil
		},
	}
	require.NoError(t, importer.Run(t.Context()))
	assert.Equal(t, []string{"a", "b"}, stored)
	assert.False(t, server.Exists("import"), "the lock is left behind")
}

func TestOneHostAtATime(t *testing.T) {
	server := miniredis.RunT(t)
	other, err := newLocks(t, server).Mutex("import", locker.Fenced()).TryLock(t.Context())
	require.NoError(t, err)
	importer := &Importer{Locks: newLocks(t, server)}
	assert.ErrorIs(t, importer.Run(t.Context()), ErrBusy)

	require.NoError(t, other.Unlock(t.Context()))
	importer.Fetch = func(context.Context) ([]string, error) { return nil, assert.AnError }
	assert.ErrorIs(t, importer.Run(t.Context()), assert.AnError)
}

func TestServerDown(t *testing.T) {
	server := miniredis.RunT(t)
	importer := &Importer{Locks: newLocks(t, server)}
	server.Close()
	assert.ErrorIs(t, importer.Run(t.Context()), locker.ErrUnavailable)
}

func TestAnImportEndsWithItsCaller(t *testing.T) {
	server := miniredis.RunT(t)
	ctx, stop := context.WithCancelCause(t.Context())
	importer := &Importer{Locks: newLocks(t, server), Fetch: func(ctx context.Context) ([]string, error) {
		stop(assert.AnError)
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Minute):
			return nil, errors.New("it goes on")
		}
	}}
	assert.ErrorIs(t, importer.Run(ctx), assert.AnError)
	assert.False(t, server.Exists("import"), "the lock is left behind")
}
