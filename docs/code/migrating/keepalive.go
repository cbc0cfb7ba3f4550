package migrating

import (
	"context"
	"errors"
	"time"
)

var errLost = errors.New("migrating: the lock was lost")

// renewed runs work and calls extend every third of the TTL meanwhile, which is the
// application's business with most libraries. It ends work's context when an extension fails,
// and also while one is not answered, before the lock can be another's.
func renewed(ctx context.Context, ttl time.Duration, extend func(ctx context.Context) error, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(ctx)
	deadline := time.AfterFunc(ttl*2/3, func() { cancel(errLost) })
	done := make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(ttl / 3)
		defer ticker.Stop()
		for {
			select {
			case <-renewing.Done():
				return
			case <-ticker.C:
			}
			sent := time.Now()
			if err := extend(renewing); err != nil && renewing.Err() == nil {
				cancel(errors.Join(errLost, err))
				return
			}
			deadline.Reset(ttl*2/3 - time.Since(sent))
		}
	}()
	defer func() { stop(); <-done; deadline.Stop(); cancel(nil) }()
	return work(ctx)
}
