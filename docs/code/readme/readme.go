// Package readme is the code of the repository's first page.
package readme

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker"
)

// Work runs under a lock.
type Work func(ctx context.Context) error

// A Store refuses a write with a smaller token than that of the last one.
type Store interface {
	Write(ctx context.Context, data string, token locker.Token) error
}

// InHand holds the lease itself, and leaves the work out where somebody else is at it.
func InHand(ctx context.Context, client *locker.Client, store Store, data string) error {
	m := client.Mutex("orders:42", locker.TTL(30*time.Second), locker.Fenced())
	lease, err := m.TryLock(ctx) // or Lock, which waits
	if errors.Is(err, locker.ErrLocked) {
		return nil // somebody else is at it; the *LockedError says who
	}
	if err != nil {
		return err
	}
	return lease.Do(ctx, func(ctx context.Context) error { // ctx is the caller's, and ends when the lock is lost
		return store.Write(ctx, data, lease.Token())
	}) // the lock is given up, whatever became of it
}
