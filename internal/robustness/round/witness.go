package round

import (
	"context"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

const (
	// nap is how long the witness sleeps, and late by how much later it wakes up on a
	// machine that has no time.
	nap  = 50 * time.Millisecond
	late = 500 * time.Millisecond
)

// witness writes down when the machine has no time, until ctx ends. What has to be done
// soon cannot be expected then.
func witness(ctx context.Context, log *history.Log) {
	for ctx.Err() == nil {
		since := history.Now()
		sleep(ctx, nap)
		if now := history.Now(); now.Sub(since) > nap+late {
			_ = log.Add(history.Event{Since: since, At: now, What: history.Starved})
		}
	}
}
