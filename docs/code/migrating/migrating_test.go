package migrating

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	rsredis "github.com/go-redsync/redsync/v4/redis"
	rsgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// fleet runs processes of which each uses one of the locks, and finds two that are in
// their critical section at the same time.
func fleet(t *testing.T, locks ...Lock) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	const each = 15
	var inside, entered atomic.Int32
	var all sync.WaitGroup
	for _, lock := range locks {
		for range 2 {
			all.Go(func() {
				for range each {
					err := lock(ctx, "orders:42", func(ctx context.Context) error {
						assert.Equal(t, int32(1), inside.Add(1), "two are inside")
						entered.Add(1)
						time.Sleep(time.Millisecond) // somebody else has time to come in
						inside.Add(-1)
						return ctx.Err()
					})
					if !assert.NoError(t, err) {
						return
					}
				}
			})
		}
	}
	all.Wait()
	assert.EqualValues(t, 2*each*len(locks), entered.Load())
}

func newRedis(t *testing.T, addr string) *redis.Client {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	return rdb
}

func newClient(t *testing.T, rdb *redis.Client, opts ...locker.ClientOption) *locker.Client {
	client, err := locker.New(goredis.Wrap(rdb), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	return client
}

func newRueidislock(t *testing.T, addr string, majority int32) rueidislock.Locker {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}},
		KeyMajority:  majority,
		KeyValidity:  30 * time.Second, // as with the others, whatever the machine is busy with
		TryNextAfter: time.Second,      // 20 ms are too few on a machine that is busy
	})
	require.NoError(t, err)
	t.Cleanup(l.Close)
	return l
}

// others are the locks of other libraries on one server.
func others(t *testing.T, addr string) map[string]Lock {
	rdb := newRedis(t, addr)
	rs, rl, ru := redsync.New(rsgoredis.NewPool(rdb)), redislock.New(rdb), newRueidislock(t, addr, 2)
	return map[string]Lock{
		"redsync": func(ctx context.Context, name string, work func(ctx context.Context) error) error {
			return Redsync(ctx, rs, name, work)
		},
		"redislock": func(ctx context.Context, name string, work func(ctx context.Context) error) error {
			return Redislock(ctx, rl, name, work)
		},
		"rueidislock": func(ctx context.Context, name string, work func(ctx context.Context) error) error {
			return Rueidislock(ctx, ru, name, work)
		},
		"handwritten": func(ctx context.Context, name string, work func(ctx context.Context) error) error {
			return Handwritten(ctx, rdb, name, work)
		},
		"Redisson": RLock(rdb),
	}
}

// A fleet in which some processes use the old library and some golocker, on one key.
func TestSameKeyExcludesBoth(t *testing.T) {
	for _, name := range []string{"redsync", "redislock", "handwritten"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := servertest.Single(t).Addr
			old, rdb := others(t, addr)[name], newRedis(t, addr)
			fair, unfair, fenced := newClient(t, rdb), newClient(t, rdb, locker.Unfair()), newClient(t, rdb, locker.Fenced())
			fleet(t, old, Ours(fair), Ours(unfair), Ours(fenced))
		})
	}
	t.Run("rueidislock with one key", func(t *testing.T) {
		t.Parallel()
		addr := servertest.Single(t).Addr
		ru := newRueidislock(t, addr, 1)
		client, err := SameKeyAsRueidislock(ru)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		fleet(t, Ours(client), tried(ru))
	})
}

// tried asks a rueidislock until it has the lock. With one key its WithContext misses a
// wake-up now and then and waits for ever at a free lock, also where nobody else takes it.
func tried(rl rueidislock.Locker) Lock {
	return func(ctx context.Context, name string, work func(ctx context.Context) error) error {
		for {
			held, cancel, err := rl.TryWithContext(ctx, name)
			switch {
			case err == nil:
				defer cancel()
				return work(held)
			case ctx.Err() != nil:
				return ctx.Err()
			case !errors.Is(err, rueidislock.ErrNotLocked):
				return err
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// The three steps of a migration that takes both locks: at each moment there are only
// processes of two neighbouring steps.
func TestBothExcludeEither(t *testing.T) {
	for _, name := range []string{"redsync", "redislock", "rueidislock", "handwritten", "Redisson"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := servertest.Single(t).Addr
			old, ours := others(t, addr)[name], Ours(newClient(t, newRedis(t, addr), locker.Prefix("locks:")))
			fleet(t, old, Both(ours, old))
			fleet(t, Both(ours, old), ours)
		})
	}
}

// Redlock of redsync and of golocker on the same servers.
func TestQuorumOfRedsyncAndOurs(t *testing.T) {
	var pools []rsredis.Pool
	var connectors []driver.Connector
	for _, server := range servertest.Servers(t, 3) {
		rdb := newRedis(t, server.Addr)
		pools, connectors = append(pools, rsgoredis.NewPool(rdb)), append(connectors, goredis.Wrap(rdb))
	}
	rs := redsync.New(pools...)
	locks := []Lock{func(ctx context.Context, name string, work func(ctx context.Context) error) error {
		return Redsync(ctx, rs, name, work)
	}}
	for _, option := range []locker.ClientOption{locker.Label("plain"), locker.Fenced()} {
		client, err := redlock.New(connectors, redlock.Config{Bootstrap: true}, option)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		locks = append(locks, Ours(client))
	}
	fleet(t, locks...)
}

// From one server of ours to a quorum of which it is a node.
func TestFromOneServerToAQuorum(t *testing.T) {
	var connectors []driver.Connector
	var old Lock
	for i, server := range servertest.Servers(t, 3) {
		rdb := newRedis(t, server.Addr)
		connectors = append(connectors, goredis.Wrap(rdb))
		if i == 0 {
			old = Ours(newClient(t, rdb))
		}
	}
	client, err := redlock.New(connectors, redlock.Config{Bootstrap: true}, locker.Prefix("quorum:"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, client.Close()) })
	fleet(t, old, Both(Ours(client), old))
	fleet(t, Both(Ours(client), old), Ours(client))
}

// What they are replaced by does the same.
func TestReplacements(t *testing.T) {
	addr := servertest.Single(t).Addr
	rdb := newRedis(t, addr)
	client, ru := newClient(t, rdb), newRueidislock(t, addr, 2)
	done := 0
	work := func(ctx context.Context) error { done++; return ctx.Err() }
	require.NoError(t, NotRedsync(t.Context(), client, "a", work))
	require.NoError(t, NotRedislock(t.Context(), client, "b", work))
	require.NoError(t, NotRueidislock(t.Context(), ru, "c", work))
	require.NoError(t, NotHandwritten(t.Context(), rdb, "d", work))
	assert.Equal(t, 4, done)

	require.NoError(t, TryRueidislock(t.Context(), ru, "e", work))
	require.NoError(t, NotTryRueidislock(t.Context(), client, "f", work))
	assert.Equal(t, 6, done)
	require.NoError(t, ru.Client().Do(t.Context(), ru.Client().B().Set().Key("f").Value("others").PxMilliseconds(60_000).Build()).Error())
	require.NoError(t, NotTryRueidislock(t.Context(), client, "f", work))
	assert.Equal(t, 6, done, "while others have it")
}

// Those of another kind are told apart at once: a fenced lock waits for a foreign
// string that expires, one with owners reports it, and so do all for Redisson's hash.
func TestWhatOtherKindsSay(t *testing.T) {
	addr := servertest.Single(t).Addr
	rdb := newRedis(t, addr)
	client := newClient(t, rdb)
	require.NoError(t, Handwritten(t.Context(), rdb, "string", func(ctx context.Context) error {
		_, err := client.Mutex("string", locker.Fenced()).TryLock(ctx)
		assert.ErrorIs(t, err, locker.ErrLocked)
		_, err = client.Mutex("string", locker.Reentrant()).TryLock(ctx)
		assert.ErrorIs(t, err, locker.ErrForeign)
		return nil
	}))
	require.NoError(t, RLock(rdb)(t.Context(), "hash", func(ctx context.Context) error {
		_, err := client.Mutex("hash").TryLock(ctx)
		assert.ErrorIs(t, err, locker.ErrForeign)
		return nil
	}))
}
