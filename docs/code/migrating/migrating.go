// Package migrating is the code of docs/migrating.md: locks of other libraries beside
// this one's, and how both are used at the same time.
package migrating

import (
	"context"

	"github.com/golocker/golocker/locker"
)

// A Lock runs work under the lock with that name, of whatever library. The work's
// context ends when the lock is lost.
type Lock func(ctx context.Context, name string, work func(ctx context.Context) error) error

// Ours is golocker's.
func Ours(client *locker.Client) Lock {
	return func(ctx context.Context, name string, work func(ctx context.Context) error) error {
		return client.Do(ctx, name, work)
	}
}

// Both is a lock that excludes the users of either. Everybody takes the two in this
// order, so that nobody waits in a circle. With one server the two need different keys.
func Both(ours, old Lock) Lock {
	return func(ctx context.Context, name string, work func(ctx context.Context) error) error {
		return ours(ctx, name, func(ctx context.Context) error {
			return old(ctx, name, work)
		})
	}
}
