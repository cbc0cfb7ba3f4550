package lockotel_test

import (
	"log"
	"strings"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/observe/lockotel"
)

func ExampleNew() {
	observer, err := lockotel.New() // with the global providers
	if err != nil {
		log.Fatal(err)
	}
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(observer))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// Locks are named "orders:42". A span may have the whole of it, a time series not.
func ExampleOption() {
	whole := func(name string) string { return name }
	group := func(name string) string { group, _, _ := strings.Cut(name, ":"); return group }
	observer, err := lockotel.New(lockotel.WithSpanNames(whole), lockotel.WithMetricNames(group))
	if err != nil {
		log.Fatal(err)
	}
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(observer))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}
