package classics

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// TakeAnonymously takes a lock without saying who has it.
func TakeAnonymously(ctx context.Context, rdb *redis.Client, key string, ttl time.Duration) (bool, error) {
	return rdb.SetNX(ctx, key, "locked", ttl).Result()
}

// Delete gives a lock up, whoever has it.
func Delete(ctx context.Context, rdb *redis.Client, key string) error {
	return rdb.Del(ctx, key).Err()
}

// GetThenDelete looks whether the lock is ours, and then deletes it.
func GetThenDelete(ctx context.Context, rdb *redis.Client, key, token string) error {
	value, err := rdb.Get(ctx, key).Result()
	if err != nil || value != token {
		return err
	}
	return rdb.Del(ctx, key).Err()
}
