package locker_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/golocker/golocker/locker"
)

func work(context.Context) error { return nil }

func ExampleOpen() {
	// The driver registers itself: import _ ".../drivers/goredis".
	client, err := locker.Open("goredis", "redis://localhost:6379/0")
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleClient() {
	var client *locker.Client // from New or Open
	ctx := context.Background()
	err := client.Do(ctx, "orders:42", func(ctx context.Context) error {
		return work(ctx) // ctx ends when the lock is lost
	})
	if errors.Is(err, locker.ErrLost) {
		log.Print("somebody else may have begun: ", err)
	}
}

// Many short tasks share one lock. It does not matter which of them runs next, only that
// one of them runs.
func ExampleUnfair() {
	var client *locker.Client // from New or Open
	ctx := context.Background()
	m := client.Mutex("compaction", locker.Unfair())
	lease, err := m.Lock(ctx) // takes the lock if it is free, whoever else waits
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(context.WithoutCancel(ctx))
}

func ExampleClientOption() {
	client, err := locker.Open("goredis", "redis://localhost:6379/0",
		locker.Prefix("shop:"),
		locker.Label("billing-7"),
		locker.TTL(10*time.Second), // for all locks of this client
	)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
}

func ExampleMutex() {
	var client *locker.Client // from New or Open
	ctx := context.Background()
	m := client.Mutex("orders:42")
	lease, err := m.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(context.WithoutCancel(ctx))
}

func ExampleMutex_TryLock() {
	var client *locker.Client // from New or Open
	ctx := context.Background()
	lease, err := client.Mutex("nightly-report").TryLock(ctx)
	if errors.Is(err, locker.ErrLocked) {
		return // another host is at it
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := lease.Do(ctx, work); err != nil { // or Unlock it yourself
		log.Print(err)
	}
}

func ExampleOption() {
	var client *locker.Client // from New or Open
	client.Mutex("orders:42",
		locker.TTL(time.Minute),
		locker.WaitTimeout(5*time.Second),
		locker.MaxHold(time.Hour),
		locker.Metadata("import of 2026-11-21"),
		locker.Fenced(),
	)
}

func ExampleRetryPolicy() {
	var client *locker.Client // from New or Open
	// Five attempts, a second apart.
	client.Mutex("a", locker.Retry(locker.Attempts(5, locker.Constant(time.Second))))
	// One of your own: slower and slower, a minute at most, half of it random.
	linear := func(n int, r float64) (time.Duration, bool) {
		d := min(time.Duration(n)*time.Second, time.Minute)
		return d/2 + time.Duration(r*float64(d/2)), true
	}
	client.Mutex("b", locker.Retry(linear))
}

func ExampleLease() {
	var lease *locker.Lease // from Lock, TryLock or Attach
	select {
	case <-lease.Context().Done():
		log.Print(context.Cause(lease.Context()))
	case <-time.After(time.Second):
		fmt.Println("held until", lease.Deadline(), "and renewed before")
	}
}

// Work that is left out where somebody else is at it. It has the caller's deadline and
// values, and ends when the lock is lost.
func ExampleLease_Do() {
	var client *locker.Client // from New or Open
	run := func(ctx context.Context) error {
		lease, err := client.Mutex("nightly-report").TryLock(ctx)
		if errors.Is(err, locker.ErrLocked) {
			return nil
		}
		if err != nil {
			return err
		}
		return lease.Do(ctx, work) // gives it up in any case
	}
	if err := run(context.Background()); err != nil {
		log.Print(err)
	}
}

func ExampleLease_Detach() {
	var client *locker.Client // from New or Open
	ctx := context.Background()
	lease, err := client.Mutex("saga:7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	id, err := lease.Detach(ctx, 10*time.Minute) // send id to the next process

	// There:
	lease, err = client.Mutex("saga:7").Attach(ctx, id)
	if errors.Is(err, locker.ErrNotHeld) {
		log.Print("too late, or somebody else took it up: ", err)
	}
	_ = lease
}

func ExampleToken() {
	var client *locker.Client // from New or Open
	var db *sql.DB
	err := client.Do(context.Background(), "account:7", func(ctx context.Context) error {
		lease, _ := locker.FromContext(ctx)
		// The database refuses what an outdated holder sends.
		_, err := db.ExecContext(ctx,
			`UPDATE account SET balance = 5, fence = $1 WHERE id = 7 AND fence <= $1`, uint64(lease.Token()))
		return err
	}, locker.Fenced())
	_ = err
}

func ExampleHolder() {
	var client *locker.Client // from New or Open
	_, err := client.Mutex("orders:42").TryLock(context.Background())
	if locked, ok := errors.AsType[*locker.LockedError](err); ok {
		h := locked.Holder
		fmt.Printf("%s (%s) holds it for %v more unless renewed\n", h.Label, h.Metadata, h.Remaining)
	}
}

func ExampleStatus() {
	var client *locker.Client // from New or Open
	s, err := client.Inspect(context.Background(), "orders:42")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(s.Held(), s.Holders, s.Waiters)
}

func ExampleClient_ForceReleaseFrom() {
	var client *locker.Client // from New or Open
	ctx := context.Background()
	s, err := client.Inspect(ctx, "orders:42")
	if err != nil {
		log.Fatal(err)
	}
	dead := slices.DeleteFunc(s.Holders, func(h locker.Holder) bool { return h.Label != "web-1:4711" })
	switch ended, err := client.ForceReleaseFrom(ctx, "orders:42", dead...); {
	case errors.Is(err, locker.ErrNotHeld):
		fmt.Println("it holds the lock no more")
	case err != nil:
		log.Fatal(err) // after ErrUnknown the same may be asked again
	default:
		fmt.Println("ended:", ended)
	}
}

func ExampleClient_List() {
	var client *locker.Client // from New or Open
	for found, err := range client.List(context.Background(), "orders:") {
		if err != nil {
			log.Fatal(err)
		}
		for _, h := range found.Holders {
			fmt.Printf("%s: %s (%s), %v left, %d wait\n", found.Name, h.Label, h.Mode, h.Remaining, found.Waiters)
		}
	}
}

func ExampleFound() {
	var client *locker.Client // from New or Open
	for found, err := range client.List(context.Background(), "") {
		if err == nil && found.Waiters > 100 {
			fmt.Println(found.Name, "is what everybody waits for")
		}
	}
}

func ExampleLockedError() {
	err := error(&locker.LockedError{Name: "orders:42", Holder: locker.Holder{Label: "web-1:77", Remaining: 3 * time.Second}})
	fmt.Println(err)
	fmt.Println(errors.Is(err, locker.ErrLocked))
	// Output:
	// locker: "orders:42" is locked by "web-1:77" for 3s more unless renewed
	// true
}

func ExampleWaitError() {
	var client *locker.Client // from New or Open
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_, err := client.Mutex("orders:42").Lock(ctx)
	if w, ok := errors.AsType[*locker.WaitError](err); ok {
		fmt.Println("stopped by:", w.Cause)                                   // the ctx's cause
		fmt.Println("not had because:", w.Reason)                             // locked by whom, or
		fmt.Println("no server:", errors.Is(w.Reason, locker.ErrUnavailable)) // unreachable
	}
}

func ExampleLostError() {
	var lease *locker.Lease // from Lock
	<-lease.Context().Done()
	if lost, ok := errors.AsType[*locker.LostError](context.Cause(lease.Context())); ok {
		log.Print("lost: ", lost.Reason, ", last renewal: ", lost.LastErr)
	}
}

func ExampleForeignError() {
	err := error(&locker.ForeignError{Name: "cart", Type: "hash"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, locker.ErrForeign))
	// Output:
	// locker: the key of "cart" holds a hash, which is not a lock of this library; delete it, or use another name
	// true
}
