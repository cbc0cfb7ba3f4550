package rwlock_test

import (
	"context"
	"fmt"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/rwlock"
)

func Example() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()
	client, err := locker.New(goredis.Wrap(rdb))
	if err != nil {
		panic(err)
	}
	defer client.Close()

	ctx := context.Background()
	rw := rwlock.New(client, "catalog")
	err = rw.Do(ctx, func(ctx context.Context) error {
		fmt.Println("alone")
		return nil
	})
	fmt.Println(err)
	err = rw.RDo(ctx, func(ctx context.Context) error {
		other, err := rw.TryRLock(context.Background())
		if err != nil {
			return err
		}
		fmt.Println("together with other readers")
		return other.Unlock(ctx)
	})
	fmt.Println(err)
	// Output:
	// alone
	// <nil>
	// together with other readers
	// <nil>
}
