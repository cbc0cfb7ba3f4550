package aside_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver/aside"
)

func TestEndedIsTheErrorOfTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		assert.NoError(t, aside.Ended(t.Context()))
		assert.NoError(t, aside.Ended(ctx))
		cancel()
		assert.Equal(t, context.Canceled, aside.Ended(ctx))
		time.Sleep(time.Hour)
		begun := time.Now()
		assert.Equal(t, context.Canceled, aside.Ended(ctx))
		assert.Zero(t, time.Since(begun))
	})
}

// overdue is a context whose deadline has passed.
type overdue struct{ context.Context }

func (overdue) Deadline() (time.Time, bool) { return time.Now(), true }

func TestEndedWaitsForAContextThatIsAboutToEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		assert.Equal(t, context.Canceled, aside.Ended(overdue{ctx}))
	})
}

func TestEndedDoesNotWaitForAContextThatNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		assert.Equal(t, context.DeadlineExceeded, aside.Ended(overdue{t.Context()}))
		assert.Equal(t, 100*time.Millisecond, time.Since(begun))
	})
}
