package locker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
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

func ExampleClient_Snapshot() {
	var client *locker.Client // from New or Open
	s := client.Snapshot()
	for _, lease := range s.Leases {
		fmt.Println("held", lease.Name, "until", lease.Deadline)
	}
	for _, w := range s.Waiters {
		fmt.Println("waited for", w.Name, "since", w.Since)
	}
}
