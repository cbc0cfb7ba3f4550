package migrating

import (
	"context"
	"errors"
	"time"

	"github.com/go-redsync/redsync/v4"

	"github.com/golocker/golocker/locker"
)

// Redsync is what a use of redsync looks like: tries, an extension from time to time,
// and a release.
func Redsync(ctx context.Context, rs *redsync.Redsync, name string, work func(ctx context.Context) error) error {
	m := rs.NewMutex(name, redsync.WithExpiry(30*time.Second), redsync.WithTries(1000))
	if err := m.LockContext(ctx); err != nil {
		return err
	}
	defer m.UnlockContext(context.WithoutCancel(ctx))
	return renewed(ctx, 30*time.Second, func(ctx context.Context) error {
		ok, err := m.ExtendContext(ctx)
		if err == nil && !ok {
			err = errors.New("not extended")
		}
		return err
	}, work)
}

// NotRedsync is the same with golocker.
func NotRedsync(ctx context.Context, client *locker.Client, name string, work func(ctx context.Context) error) error {
	return client.Do(ctx, name, work, locker.TTL(30*time.Second))
}
