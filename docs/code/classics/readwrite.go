package classics

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// TakeReading counts a reader, and sets the TTL that all readers share.
func TakeReading(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration) error {
	_, err := rdb.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Incr(ctx, key)
		p.PExpire(ctx, key, ttl)
		return nil
	})
	return err
}

// TakeWriting takes the lock if there is no reader.
func TakeWriting(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration) (bool, error) {
	return rdb.SetNX(ctx, key, -1, ttl).Result()
}
