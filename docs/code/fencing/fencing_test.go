package fencing

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newRedis(t *testing.T) (*redis.Client, *locker.Client) {
	rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	client, err := locker.New(goredis.Wrap(rdb))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return rdb, client
}

func newDatabase(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db")+"?_pragma=busy_timeout(10000)&_txlock=immediate")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	for _, statement := range []string{
		Table,
		`CREATE TABLE accounts (id TEXT PRIMARY KEY, balance INTEGER NOT NULL)`,
		`INSERT INTO accounts VALUES ('7', 100)`,
		`CREATE TABLE jobs (id TEXT PRIMARY KEY, status TEXT NOT NULL, fence BIGINT NOT NULL)`,
		`INSERT INTO jobs VALUES ('a', 'new', 0)`,
	} {
		_, err := db.ExecContext(t.Context(), statement)
		require.NoError(t, err)
	}
	return db
}

// A guarded value that a holder of the lock changes, whatever it is kept in.
type guarded struct {
	write func(ctx context.Context, token locker.Token, value string) error
	value func() string
}

func guards(t *testing.T) map[string]guarded {
	db, rdb := newDatabase(t), redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr()})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	objects, bucket := newBucket(t)
	status := func() (s string) {
		require.NoError(t, db.QueryRow(`SELECT status FROM jobs`).Scan(&s))
		return s
	}
	return map[string]guarded{
		"SQL row": {
			func(ctx context.Context, token locker.Token, value string) error {
				return SetStatus(ctx, db, "a", value, token)
			}, status,
		},
		"SQL transaction": {
			func(ctx context.Context, token locker.Token, value string) error {
				tx, err := db.BeginTx(ctx, nil)
				require.NoError(t, err)
				defer tx.Rollback()
				if err := Admit(ctx, tx, "job:a", token); err != nil {
					return err
				}
				_, err = tx.ExecContext(ctx, `UPDATE jobs SET status = $1`, value)
				require.NoError(t, err)
				return tx.Commit()
			}, status,
		},
		"objects": {
			func(ctx context.Context, token locker.Token, value string) error {
				return bucket.Update(ctx, "a", token, func([]byte) []byte { return []byte(value) })
			}, func() string { return objects.objects["/a"].body },
		},
		"Redis": {
			func(ctx context.Context, token locker.Token, value string) error {
				return SetFields(ctx, rdb, "a", token, "status", value)
			}, func() string { return rdb.HGet(t.Context(), "a", "status").Val() },
		},
	}
}

// A holder that has lost the lock without knowing it is refused from its successor's
// first write on, and the successor writes as often as it likes.
func TestLostHoldersAreRefused(t *testing.T) {
	_, locks := newRedis(t)
	for name, store := range guards(t) {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			m := locks.Mutex("job:a", locker.Fenced())
			assert.ErrorIs(t, store.write(ctx, 0, "by who has no token"), ErrUnfenced)
			lost, err := m.TryLock(ctx)
			require.NoError(t, err)
			require.NoError(t, store.write(ctx, lost.Token(), "by the first"))
			_, err = locks.ForceRelease(ctx, "job:a")
			require.NoError(t, err)
			lease, err := m.TryLock(ctx)
			require.NoError(t, err)
			require.NoError(t, store.write(ctx, lease.Token(), "by the second"))

			assert.ErrorIs(t, store.write(ctx, lost.Token(), "too late"), ErrOutdated)
			assert.Equal(t, "by the second", store.value())
			require.NoError(t, store.write(ctx, lease.Token(), "again"))
			assert.Equal(t, "again", store.value())
			require.NoError(t, lease.Unlock(ctx))
		})
	}
}

// Who shows the token before it reads loses no update, although the store has seen no
// write of it yet.
func TestLostHoldersDoNotSlipInBetweenReadingAndWriting(t *testing.T) {
	const lost, holder = 1, 2
	t.Run("SQL", func(t *testing.T) {
		db := newDatabase(t)
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, Admit(t.Context(), tx, "account:7", holder))
		require.NoError(t, tx.Commit())
		tx, err = db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		assert.ErrorIs(t, Admit(t.Context(), tx, "account:7", lost), ErrOutdated)
		require.NoError(t, tx.Rollback())
	})
	t.Run("objects", func(t *testing.T) {
		objects, bucket := newBucket(t)
		add := func(s string) func([]byte) []byte {
			return func(old []byte) []byte { return append(old, s...) }
		}
		require.NoError(t, bucket.Update(t.Context(), "a", lost, add("1")))
		objects.beforePut = func() {
			assert.NoError(t, bucket.Update(context.Background(), "a", lost, add("2")))
		}
		require.NoError(t, bucket.Update(t.Context(), "a", holder, add("3")))
		assert.Equal(t, "123", objects.objects["/a"].body, "an update was lost")
		assert.ErrorIs(t, bucket.Update(t.Context(), "a", lost, add("4")), ErrOutdated)
	})
	t.Run("Redis", func(t *testing.T) {
		rdb, _ := newRedis(t)
		require.NoError(t, SetFields(t.Context(), rdb, "a", lost, "n", "1"))
		fields, err := Fields(t.Context(), rdb, "a", holder)
		require.NoError(t, err)
		assert.Equal(t, "1", fields["n"])
		assert.ErrorIs(t, SetFields(t.Context(), rdb, "a", lost, "n", "2"), ErrOutdated)
		_, err = Fields(t.Context(), rdb, "a", lost)
		assert.ErrorIs(t, err, ErrOutdated)
		_, err = Fields(t.Context(), rdb, "a", 0)
		assert.ErrorIs(t, err, ErrUnfenced)
		require.NoError(t, SetFields(t.Context(), rdb, "a", holder, "n", "3"))
	})
}

func TestWithdrawals(t *testing.T) {
	db := newDatabase(t)
	_, locks := newRedis(t)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { assert.NoError(t, Withdraw(t.Context(), locks, db, "7", 10)) })
	}
	all.Wait()
	var balance int
	require.NoError(t, db.QueryRow(`SELECT balance FROM accounts`).Scan(&balance))
	assert.Zero(t, balance)
}
