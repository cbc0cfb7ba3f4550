package migrating

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A server that hangs must not let the work go on when others may have the lock.
func TestWorkEndsWhereItsExtensionIsNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		extensions := 0
		err := renewed(t.Context(), 30*time.Second, func(ctx context.Context) error {
			if extensions++; extensions == 2 {
				time.Sleep(time.Minute) // as a client that does not heed its context
				return ctx.Err()
			}
			time.Sleep(5 * time.Second) // slow, but in time
			return nil
		}, func(ctx context.Context) error {
			select {
			case <-ctx.Done():
			case <-time.After(time.Hour):
			}
			// The first extension was sent after 10 s, and has given 30 s from then.
			assert.Less(t, time.Since(begun), 40*time.Second)
			assert.Greater(t, time.Since(begun), 20*time.Second)
			return context.Cause(ctx)
		})
		assert.ErrorIs(t, err, errLost)
	})
}
