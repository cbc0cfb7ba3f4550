package migrating

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The format of Redisson's RLock (not fair, not fenced): a hash with a count for each
// "<connection's uuid>:<thread>". The count is not used here.
var (
	rlockTake = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 then
  return redis.call('PTTL', KEYS[1])
end
redis.call('HINCRBY', KEYS[1], ARGV[2], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return -2`)
	rlockRenew = redis.NewScript(`
if redis.call('HEXISTS', KEYS[1], ARGV[2]) == 0 then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`)
	rlockFree = redis.NewScript(`
if redis.call('HDEL', KEYS[1], ARGV[1]) == 1 then
  redis.call('PUBLISH', KEYS[2], '0')
end
return 1`)
)

// RLock takes the locks of Redisson's RLock from Go, for as long as a migration lasts. It
// is as good as that lock, and not better.
func RLock(rdb *redis.Client) Lock {
	const ttl = 30 * time.Second // Redisson's lockWatchdogTimeout
	return func(ctx context.Context, name string, work func(ctx context.Context) error) error {
		holder := rand.Text() + ":1"
		for {
			left, err := rlockTake.Run(ctx, rdb, []string{name}, ttl.Milliseconds(), holder).Int64()
			if err != nil {
				return err
			}
			if left == -2 {
				break // it was free, and is ours
			}
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(50 * time.Millisecond):
			}
		}
		defer rlockFree.Run(context.WithoutCancel(ctx), rdb, []string{name, rlockChannel(name)}, holder)
		return renewed(ctx, ttl, func(ctx context.Context) error {
			n, err := rlockRenew.Run(ctx, rdb, []string{name}, ttl.Milliseconds(), holder).Int()
			if err == nil && n == 0 {
				err = errors.New("somebody else's")
			}
			return err
		}, work)
	}
}

// rlockChannel is where Redisson's waiters listen.
func rlockChannel(name string) string {
	if strings.Contains(name, "{") {
		return "redisson_lock__channel:" + name
	}
	return "redisson_lock__channel:{" + name + "}"
}
