package readme

import (
	"context"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/redis/go-redis/v9"
)

// ThirtySeconds is the first example.
func ThirtySeconds(ctx context.Context, addr string, work Work) error {
	rdb := redis.NewClient(&redis.Options{Addr: addr}) // "localhost:6379"
	client, err := locker.New(goredis.Wrap(rdb))
	if err != nil {
		return err
	}
	defer client.Close()

	return client.Do(ctx, "orders:42", func(ctx context.Context) error {
		return work(ctx) // ctx ends when the lock is lost
	})
}
