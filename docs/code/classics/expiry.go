package classics

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// SetNXThenExpire takes a lock by two commands.
func SetNXThenExpire(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration) (bool, error) {
	ok, err := rdb.SetNX(ctx, key, "locked", 0).Result()
	if err != nil || !ok {
		return false, err
	}
	return true, rdb.Expire(ctx, key, ttl).Err()
}

// GetSet keeps the time of expiry in the value, by the client's clock, and takes a lock
// that has expired by GETSET: the scheme of the documentation of SETNX until 2.6.12.
func GetSet(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration, now time.Time) (bool, error) {
	until := now.Add(ttl).UnixMilli()
	if ok, err := rdb.SetNX(ctx, key, until, 0).Result(); err != nil || ok {
		return ok, err
	}
	held, err := rdb.Get(ctx, key).Int64()
	if err != nil || held > now.UnixMilli() {
		return false, err
	}
	before, err := rdb.Do(ctx, "GETSET", key, until).Int64()
	return before == held, err
}

// FromTheReply takes a lock and counts its time from when the reply came.
func FromTheReply(ctx context.Context, rdb *redis.Client, key, token string, ttl time.Duration) (until time.Time, err error) {
	ok, err := rdb.SetNX(ctx, key, token, ttl).Result()
	if err != nil || !ok {
		return time.Time{}, err
	}
	return time.Now().Add(ttl), nil
}
