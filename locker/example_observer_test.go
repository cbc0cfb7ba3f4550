package locker_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/golocker/golocker/locker"
)

func ExampleLogger() {
	// Names of locks are customer numbers here, which are not for the log.
	handler := slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == "lock" {
				return slog.Attr{}
			}
			return a
		},
	})
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Logger(slog.New(handler)))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// Every loss is counted, and whoever waits for long is named.
func ExampleObserver() {
	losses := map[string]int{}
	watch := locker.Observer{
		LockEnd: func(_ context.Context, e locker.LockEnd) {
			if e.Wait > time.Second {
				log.Printf("%s: waited %v for %s", e.Outcome(), e.Wait, e.Name)
			}
		},
		HoldEnd: func(_ context.Context, e locker.HoldEnd) {
			if e.Lost != nil {
				losses[e.Outcome()]++
			}
		},
	}
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(watch))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleLockEnd_Outcome() {
	fmt.Println(locker.LockEnd{}.Outcome())
	fmt.Println(locker.LockEnd{Err: locker.ErrLocked}.Outcome())
	fmt.Println(locker.HoldEnd{Lost: &locker.LostError{Reason: locker.ErrTaken}}.Outcome())
	// Output:
	// acquired
	// locked
	// lost_taken
}

// What goes on between the client and its servers.
func ExampleObserver_servers() {
	watch := locker.Observer{
		Renewal: func(e locker.Renewal) {
			if e.Err != nil {
				log.Printf("%s has %v left: %v", e.Name, e.Left, e.Err)
			}
		},
		Healed:       func(e locker.Healed) { log.Printf("%s has a TTL again, of %v", e.Name, e.For) },
		Subscription: func(e locker.Subscription) { log.Printf("node %d, messages arrive: %t", e.Node, e.Listening) },
		Warning:      func(e locker.Warning) { log.Printf("node %d: %s", e.Node, e.Text) },
	}
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(watch))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

// How many calls wait for each kind of lock, and by which route the locks were had.
func ExampleLockStart() {
	kind := func(l locker.LockInfo) locker.Mode { return l.Mode }
	var mu sync.Mutex
	calls, routes := map[locker.Mode]int{}, map[locker.Route]int{}
	watch := locker.Observer{
		LockStart: func(ctx context.Context, e locker.LockStart) context.Context {
			mu.Lock()
			defer mu.Unlock()
			calls[kind(e.LockInfo)]++
			return ctx
		},
		LockEnd: func(_ context.Context, e locker.LockEnd) {
			mu.Lock()
			defer mu.Unlock()
			calls[kind(e.LockInfo)]--
			routes[e.Route]++
		},
	}
	_ = locker.Observe(watch)
}

// The server's ACL lacks something, which an operator has to be told.
func ExamplePermissionError() {
	var client *locker.Client // from New or Open
	_, err := client.Mutex("orders:42").TryLock(context.Background())
	if denied, ok := errors.AsType[*locker.PermissionError](err); ok {
		fmt.Println("give the user", denied.Grant)
	}
}

func ExampleClient_Snapshot() {
	held := func(l locker.LeaseInfo) { fmt.Println("held", l.Name, "until", l.Deadline) }
	waiting := func(w locker.WaitingInfo) { fmt.Println("waited for", w.Name, "since", w.Since) }

	var client *locker.Client // from New or Open
	s := client.Snapshot()
	for _, lease := range s.Leases {
		held(lease)
	}
	for _, w := range s.Waiters {
		waiting(w)
	}
}
