package classics

import (
	"context"

	"github.com/redis/go-redis/v9"
)

var countAndExpire = redis.NewScript(`
if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HEXISTS', KEYS[1], ARGV[1]) == 0 then
  return 0
end
redis.call('HINCRBY', KEYS[1], ARGV[1], 1)
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 1`)

// CountUp takes a reentrant lock: a hash with a count for its owner, whose TTL is set
// by a second command of the script.
func CountUp(ctx context.Context, rdb *redis.Client, key, owner, milliseconds string) (bool, error) {
	n, err := countAndExpire.Eval(ctx, rdb, []string{key}, owner, milliseconds).Int()
	return n == 1, err
}

var countDown = redis.NewScript(`
if redis.call('HINCRBY', KEYS[1], ARGV[1], -1) <= 0 then
  redis.call('DEL', KEYS[1])
end
return 1`)

// CountDown gives one hold up.
func CountDown(ctx context.Context, rdb *redis.Client, key, owner string) error {
	return countDown.Eval(ctx, rdb, []string{key}, owner).Err()
}
