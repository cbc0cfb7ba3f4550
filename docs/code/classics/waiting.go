package classics

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

// Enqueue takes a place in a fair queue by the time of the client's clock.
func Enqueue(ctx context.Context, rdb *redis.Client, queue, who string, now time.Time) error {
	return rdb.ZAdd(ctx, queue, redis.Z{Score: float64(now.UnixMilli()), Member: who}).Err()
}

// First is who is next.
func First(ctx context.Context, rdb *redis.Client, queue string) (string, error) {
	list, err := rdb.ZRange(ctx, queue, 0, 0).Result()
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0], nil
}

// TryThenSubscribe waits for the message of the release, if the lock was not free.
func TryThenSubscribe(ctx context.Context, rdb *redis.Client, key, token string, ttl time.Duration) error {
	for {
		if ok, err := rdb.SetNX(ctx, key, token, ttl).Result(); err != nil || ok {
			return err
		}
		messages := rdb.Subscribe(ctx, "released:"+key)
		_, err := messages.ReceiveMessage(ctx)
		messages.Close()
		if err != nil {
			return err
		}
	}
}

// ReleaseAndPublish gives the lock up and tells who waits.
func ReleaseAndPublish(ctx context.Context, rdb *redis.Client, key string) error {
	if err := rdb.Del(ctx, key).Err(); err != nil {
		return err
	}
	return rdb.Publish(ctx, "released:"+key, "").Err()
}
