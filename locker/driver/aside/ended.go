package aside

import (
	"context"
	"time"
)

// late is how long Ended waits for the timer of a ctx, which is hardly ever so late.
const late = 100 * time.Millisecond

// Ended is ctx.Err(), except that it waits for a ctx that is about to end: a network deadline
// taken from ctx can pass a moment before ctx says so itself. A ctx that does not end although
// its deadline has passed, as one of an application's own make may not, counts as ended all the
// same, by [context.DeadlineExceeded].
func Ended(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok && ctx.Err() == nil && !time.Now().Before(deadline) {
		select {
		case <-ctx.Done():
		case <-time.After(late):
			return context.DeadlineExceeded
		}
	}
	return ctx.Err()
}
