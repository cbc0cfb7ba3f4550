package migrating

import (
	"context"
	"time"

	"github.com/bsm/redislock"

	"github.com/golocker/golocker/locker"
)

// Redislock is what a use of bsm/redislock looks like.
func Redislock(ctx context.Context, rl *redislock.Client, name string, work func(ctx context.Context) error) error {
	lock, err := rl.Obtain(ctx, name, 30*time.Second, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
		Metadata:      "nightly import",
	})
	if err != nil { // context.DeadlineExceeded: after the TTL, if ctx has no deadline
		return err
	}
	defer lock.Release(context.WithoutCancel(ctx))
	return renewed(ctx, 30*time.Second, func(ctx context.Context) error {
		return lock.Refresh(ctx, 30*time.Second, nil)
	}, work)
}

// NotRedislock is the same with golocker.
func NotRedislock(ctx context.Context, client *locker.Client, name string, work func(ctx context.Context) error) error {
	return client.Do(ctx, name, work,
		locker.TTL(30*time.Second), locker.WaitTimeout(30*time.Second), locker.Metadata("nightly import"))
}
