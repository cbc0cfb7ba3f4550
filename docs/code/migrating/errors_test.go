package migrating

import (
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// What the tables say of errors: who has lost the lock is told by others than who does not get it,
// but for redislock's Refresh.
func TestErrorsOfWhoHasLostTheLock(t *testing.T) {
	ctx, rdb := t.Context(), newRedis(t, servertest.Single(t).Addr)
	client := newClient(t, rdb, locker.NoRenewal())
	rl := redislock.New(rdb)
	for name, then := range map[string]func(key string){
		"absent": func(key string) { require.NoError(t, rdb.Del(ctx, key).Err()) },
		"taken":  func(key string) { require.NoError(t, rdb.Set(ctx, key, "another's", time.Minute).Err()) },
	} {
		m := redsync.New(rsgoredis.NewPool(rdb)).NewMutex("redsync:" + name)
		require.NoError(t, m.LockContext(ctx))
		then(m.Name())
		_, err := m.ExtendContext(ctx)
		assert.ErrorAs(t, err, new(*redsync.ErrTaken), name)
		_, err = m.UnlockContext(ctx)
		if name == "absent" {
			assert.ErrorIs(t, err, redsync.ErrLockAlreadyExpired)
		} else {
			assert.ErrorAs(t, err, new(*redsync.ErrTaken))
		}

		lock, err := rl.Obtain(ctx, "redislock:"+name, time.Minute, nil)
		require.NoError(t, err)
		then(lock.Key())
		assert.ErrorIs(t, lock.Refresh(ctx, time.Minute, nil), redislock.ErrNotObtained, name)
		assert.ErrorIs(t, lock.Release(ctx), redislock.ErrLockNotHeld, name)

		lease, err := client.Mutex("ours:" + name).TryLock(ctx)
		require.NoError(t, err)
		then(lease.Name())
		err = lease.Extend(ctx, time.Minute)
		assert.ErrorIs(t, err, locker.ErrNotHeld, name)
		assert.NotErrorIs(t, err, locker.ErrLocked, name)
		assert.ErrorIs(t, lease.Unlock(ctx), locker.ErrNotHeld, name)
	}
}
