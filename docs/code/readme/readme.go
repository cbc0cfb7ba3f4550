// Package readme is the code of the repository's first page.
package readme

import (
	"context"
	"time"

	"github.com/golocker/golocker/locker"
)

// Work runs under a lock.
type Work func(ctx context.Context) error

// A Store refuses a write with a smaller token than that of the last one.
type Store interface {
	Write(ctx context.Context, data string, token locker.Token) error
}

// InHand holds the lease itself.
func InHand(ctx context.Context, client *locker.Client, store Store, data string) error {
	m := client.Mutex("orders:42", locker.TTL(30*time.Second), locker.Fenced())
	lease, err := m.Lock(ctx) // or TryLock: a *LockedError says who holds it and for how long
	if err != nil {
		return err
	}
	defer lease.Unlock(context.WithoutCancel(ctx))
	return store.Write(lease.Context(), data, lease.Token())
}
