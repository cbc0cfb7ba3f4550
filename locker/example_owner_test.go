package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/golocker/golocker/locker"
)

// Functions that take the same lock call each other: the context says who it is.
func ExampleReentrant() {
	var client *locker.Client // from New or Open
	account := client.Mutex("account:7", locker.Reentrant())

	deposit := func(ctx context.Context) error {
		return account.Do(ctx, work)
	}
	transfer := func(ctx context.Context) error {
		return account.Do(ctx, func(ctx context.Context) error {
			return deposit(ctx) // does not wait for transfer
		})
	}
	if err := transfer(context.Background()); err != nil {
		log.Print(err)
	}
}

// An owner is a value. Who has it shares the owner's locks.
func ExampleOwner() {
	here, there := locker.NamedOwner("import-17"), locker.NamedOwner("import-17")
	fmt.Println(here == there, here)
	one, another := locker.NewOwner(), locker.NewOwner()
	fmt.Println(one == another)
	// Output:
	// true import-17
	// false
}

// A job whose parts run in several processes, each of which may take the lock again.
func ExampleNamedOwner() {
	var client *locker.Client // from New or Open
	lease, err := client.Mutex("warehouse:3", locker.Reentrant(),
		locker.As(locker.NamedOwner("import-17"))).Lock(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(context.Background())
}

func ExampleNewOwner() {
	var client *locker.Client // from New or Open
	ctx := locker.WithOwner(context.Background(), locker.NewOwner())
	m := client.Mutex("warehouse:3", locker.Reentrant())
	outer, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer outer.Unlock(context.WithoutCancel(ctx))
	inner, err := m.Lock(ctx) // at once; it is unlocked by itself
	if err != nil {
		log.Fatal(err)
	}
	defer inner.Unlock(context.WithoutCancel(ctx))
}

// Of a request's context everything that it calls is one owner.
func ExampleWithOwner() {
	handle := func(ctx context.Context, requestID string) context.Context {
		return locker.WithOwner(ctx, locker.NamedOwner(requestID))
	}
	_ = handle(context.Background(), "4711")
}

// As comes before what the context says.
func ExampleAs() {
	var client *locker.Client // from New or Open
	nightly := locker.NamedOwner("nightly-report")
	client.Mutex("warehouse:3", locker.Reentrant(), locker.As(nightly))
}

// A reader finds that there is something to write.
func ExampleLease_Upgrade() {
	var reading *locker.Lease // from a Mutex ForReading
	ctx := context.Background()
	writing, err := reading.Upgrade(ctx)
	switch {
	case errors.Is(err, locker.ErrDeadlock):
		reading.Unlock(ctx) // another reader was first, and waits for this one to leave
		return
	case err != nil:
		log.Fatal(err)
	}
	defer writing.Unlock(ctx) // reading goes on, until it is unlocked too
}

// A writer has written, and lets readers in while it reads on.
func ExampleLease_Downgrade() {
	var writing *locker.Lease // from a Mutex ForWriting
	ctx := context.Background()
	reading, err := writing.Downgrade(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer reading.Unlock(ctx)
}

func ExampleDeadlockError() {
	var client *locker.Client      // from New or Open
	m := client.Mutex("orders:42") // not Reentrant
	err := m.Do(context.Background(), func(ctx context.Context) error {
		return m.Do(ctx, work) // would wait for itself
	})
	if deadlock, ok := errors.AsType[*locker.DeadlockError](err); ok && deadlock.Nested {
		log.Print("held already, further up: ", deadlock.Name)
	}
}

// A request that holds a lock begins something that takes the same lock later, and does not
// wait for it.
func ExampleWithoutLease() {
	var client *locker.Client // from New or Open
	err := client.Do(context.Background(), "orders:42", func(ctx context.Context) error {
		later := locker.WithoutLease(context.WithoutCancel(ctx)) // has the trace of the request
		go func() {
			if err := client.Do(later, "orders:42", work); err != nil { // after this request
				log.Print(err)
			}
		}()
		return work(ctx)
	})
	_ = err
}

func ExampleMode() {
	var client *locker.Client // from New or Open
	s, err := client.Inspect(context.Background(), "catalog")
	if err != nil {
		log.Fatal(err)
	}
	for _, h := range s.Holders {
		switch h.Mode {
		case locker.Reading:
			fmt.Println(h.Owner, "reads, as others may")
		case locker.Writing, locker.Exclusive:
			fmt.Println(h.Owner, "is alone for", h.Remaining.Round(time.Second))
		}
	}
}
