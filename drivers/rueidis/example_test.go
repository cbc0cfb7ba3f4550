package rueidis_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/alicebob/miniredis/v2"
	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// An application locks with the rueidis client that it has.
func ExampleWrap() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	client, err := rue.NewClient(rue.ClientOption{
		InitAddress:  []string{server.Addr()},
		DisableCache: true, // a miniredis has no CLIENT TRACKING
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()

	locks, err := locker.New(rueidis.Wrap(client))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	err = locks.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		fmt.Println("nobody else works on order 42")
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
	// Output: nobody else works on order 42
}

// Importing the package is enough to open it by name.
func ExampleDriver() {
	server := miniredis.NewMiniRedis()
	if err := server.Start(); err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()

	locks, err := locker.Open("rueidis", "redis://"+server.Addr()+"/0?timeout=1s")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()
	lease, err := locks.Mutex("orders:42").Lock(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("locked:", lease.Valid())
	if err := lease.Unlock(context.Background()); err != nil {
		fmt.Println(err)
	}
	// Output: locked: true
}

// A setting that no DSN should hold is put into its Config.
func ExampleDriver_OpenConnector() {
	cfg, err := driver.ParseDSN("rediss://locks@redis.internal:6379/0?timeout=1s")
	if err != nil {
		log.Fatal(err)
	}
	cfg.Password = driver.Secret(os.Getenv("LOCKS_PASSWORD"))
	connector, err := rueidis.Driver{}.OpenConnector(cfg)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := locker.New(connector)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
}
