package rwlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/rwlock"
)

// exampleClient returns a client on an embedded server.
func exampleClient() (client *locker.Client, end func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	client, err = locker.New(goredis.Wrap(rdb))
	if err != nil {
		panic(err)
	}
	return client, func() {
		client.Close()
		rdb.Close()
		server.Close()
	}
}

func Example() {
	client, end := exampleClient()
	defer end()

	ctx := context.Background()
	rw := rwlock.New(client, "catalog")
	err := rw.Do(ctx, func(ctx context.Context) error {
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

func ExampleNew() {
	client, end := exampleClient()
	defer end()

	// A reader that crashes is to delay a writer by five seconds at most.
	rw := rwlock.New(client, "catalog", locker.TTL(time.Minute), locker.ReadTTL(5*time.Second), locker.Fenced())
	fmt.Println(rw.Name())
	// Output: catalog
}

// A reader finds out that it has to write, and reads on afterwards.
func ExampleLock_RLock() {
	client, end := exampleClient()
	defer end()

	ctx := context.Background()
	rw := rwlock.New(client, "catalog", locker.Fenced())
	reading, err := rw.RLock(ctx)
	if err != nil {
		panic(err)
	}
	defer reading.Unlock(ctx)

	writing, err := reading.Upgrade(ctx)
	if errors.Is(err, locker.ErrDeadlock) {
		return // another reader is about to write: unlock, and Lock instead
	}
	if err != nil {
		panic(err)
	}
	fmt.Println("alone:", writing.Mode())

	again, err := writing.Downgrade(ctx)
	if err != nil {
		panic(err)
	}
	defer again.Unlock(ctx)
	// Whatever it reads now has the token of the last writer.
	fmt.Println(again.Mode(), again.Token() == writing.Token())
	// Output:
	// alone: writing
	// reading true
}

// Of work that is done only if nobody is at it.
func ExampleLock_TryLock() {
	client, end := exampleClient()
	defer end()

	ctx := context.Background()
	rw := rwlock.New(client, "catalog")
	reading, err := rw.RLock(ctx)
	if err != nil {
		panic(err)
	}
	defer reading.Unlock(ctx)
	_, err = rw.TryLock(ctx)
	if locked, ok := errors.AsType[*locker.LockedError](err); ok {
		fmt.Println("not now, somebody is", locked.Holder.Mode)
	}
	// Output: not now, somebody is reading
}
