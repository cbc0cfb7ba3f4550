package migrating

import (
	"context"
	"errors"
	"time"
)

var errLost = errors.New("migrating: the lock was lost")

// renewed runs work and calls extend every third of the TTL meanwhile, which is the
// application's business with most libraries.
func renewed(ctx context.Context, ttl time.Duration, extend func(ctx context.Context) error, work func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	renewing, stop := context.WithCancel(ctx)
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
			if err := extend(renewing); err != nil && renewing.Err() == nil {
				cancel(errors.Join(errLost, err))
				return
			}
		}
	}()
	defer func() { stop(); <-done; cancel(nil) }()
	return work(ctx)
}
