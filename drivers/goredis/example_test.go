package goredis_test

import (
	"log"
	"os"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func ExampleWrap() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	defer rdb.Close()

	locks, err := locker.New(goredis.Wrap(rdb))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close() // leaves rdb open
}

func ExampleWrap_cluster() {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		Addrs: []string{"node1:6379", "node2:6379"},
	})
	defer rdb.Close()

	locks, err := locker.New(goredis.Wrap(rdb))
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
}

func ExampleDriver() {
	// Importing this package registers the driver. Whoever needs nothing else
	// from it writes:
	//
	//	import _ "github.com/golocker/golocker/drivers/goredis"
	locks, err := locker.Open("goredis", "redis://localhost:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close() // closes its connections, too
}

// A setting that no DSN should hold is put into its Config.
func ExampleDriver_OpenConnector() {
	cfg, err := driver.ParseDSN("rediss://locks@redis.internal:6379/0?timeout=1s")
	if err != nil {
		log.Fatal(err)
	}
	cfg.Password = driver.Secret(os.Getenv("LOCKS_PASSWORD"))
	connector, err := goredis.Driver{}.OpenConnector(cfg)
	if err != nil {
		log.Fatal(err)
	}
	locks, err := locker.New(connector)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()
}
