package migrating

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
)

var release = redis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)

// Handwritten is the lock that is in every code base.
func Handwritten(ctx context.Context, rdb *redis.Client, name string, work func(ctx context.Context) error) error {
	token := rand.Text()
	for {
		ok, err := rdb.SetNX(ctx, name, token, 30*time.Second).Result()
		if err != nil {
			return err
		}
		if ok {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	defer release.Run(context.WithoutCancel(ctx), rdb, []string{name}, token)
	return work(ctx)
}

// NotHandwritten is the same with golocker, on the same client.
func NotHandwritten(ctx context.Context, rdb *redis.Client, name string, work func(ctx context.Context) error) error {
	client, err := locker.New(goredis.Wrap(rdb))
	if err != nil {
		return err
	}
	defer client.Close() // leaves rdb open
	return client.Do(ctx, name, work)
}
