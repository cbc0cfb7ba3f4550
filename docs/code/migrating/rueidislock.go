package migrating

import (
	"context"
	"errors"

	"github.com/redis/rueidis/rueidislock"

	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker"
)

// Rueidislock is what a use of rueidislock looks like.
func Rueidislock(ctx context.Context, rl rueidislock.Locker, name string, work func(ctx context.Context) error) error {
	ctx, cancel, err := rl.WithContext(ctx, name)
	if err != nil {
		return err
	}
	defer cancel()
	return work(ctx)
}

// NotRueidislock is the same with golocker, on the client that the locker has.
func NotRueidislock(ctx context.Context, rl rueidislock.Locker, name string, work func(ctx context.Context) error) error {
	client, err := locker.New(rueidis.Wrap(rl.Client()))
	if err != nil {
		return err
	}
	defer client.Close()
	return client.Do(ctx, name, work)
}

// TryRueidislock is a use of rueidislock that does not wait.
func TryRueidislock(ctx context.Context, rl rueidislock.Locker, name string, work func(ctx context.Context) error) error {
	ctx, cancel, err := rl.TryWithContext(ctx, name)
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return nil // somebody else is at it
	}
	if err != nil {
		return err
	}
	defer cancel()
	return work(ctx)
}

// NotTryRueidislock is the same with golocker.
func NotTryRueidislock(ctx context.Context, client *locker.Client, name string, work func(ctx context.Context) error) error {
	lease, err := client.Mutex(name).TryLock(ctx)
	if errors.Is(err, locker.ErrLocked) {
		return nil // somebody else is at it
	}
	if err != nil {
		return err
	}
	return lease.Do(ctx, work)
}

// SameKeyAsRueidislock has the keys of a rueidislock with KeyMajority 1.
func SameKeyAsRueidislock(rl rueidislock.Locker) (*locker.Client, error) {
	client, err := locker.New(rueidis.Wrap(rl.Client()), locker.Prefix("rueidislock:0:"))
	return client, err
}
