package redigo_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// An application that has a pool wraps it.
func ExampleWrap() {
	server, err := miniredis.Run() // your server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	pool := &redis.Pool{
		MaxIdle:     16,
		MaxActive:   64,
		Wait:        true,
		IdleTimeout: 4 * time.Minute,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			return redis.DialContext(ctx, "tcp", server.Addr(),
				redis.DialConnectTimeout(time.Second),
				redis.DialReadTimeout(time.Second),
				redis.DialWriteTimeout(time.Second))
		},
		TestOnBorrowContext: func(ctx context.Context, c redis.Conn, lastUsed time.Time) error {
			if time.Since(lastUsed) < time.Second {
				return nil
			}
			_, err := redis.DoContext(c, ctx, "PING")
			return err
		},
	}
	defer pool.Close()

	client, err := locker.New(redigo.Wrap(pool))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // the pool stays open

	err = client.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		fmt.Println("nobody else works on order 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else works on order 42
}

// Whoever has the settings elsewhere than in a data source name fills a Config.
func ExampleDriver() {
	server, err := miniredis.Run() // your server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	connector, err := redigo.Driver{}.OpenConnector(driver.Config{
		Network: "tcp", Addrs: []string{server.Addr()}, Timeout: time.Second, PoolSize: 20,
	})
	if err != nil {
		log.Fatal(err)
	}
	client, err := locker.New(connector)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close() // and the pool
	lease, err := client.Mutex("orders:42").TryLock(context.Background())
	fmt.Println(lease.Valid(), err)
	// Output: true <nil>
}

// An application that has no pool opens one by name. Importing the package is
// enough for that.
func Example_open() {
	server, err := miniredis.Run() // your server
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	client, err := locker.Open("redigo", "redis://"+server.Addr()+"/0?timeout=2s&pool_size=20")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	err = client.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		fmt.Println("nobody else works on order 42")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: nobody else works on order 42
}
