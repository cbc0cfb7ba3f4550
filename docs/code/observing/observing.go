// Package observing is the code of docs/observability.md that needs the core only.
package observing

import (
	"context"
	"log"
	"log/slog"
	"time"

	_ "github.com/golocker/golocker/drivers/goredis" // for Open by name
	"github.com/golocker/golocker/locker"
)

// Logging returns a client that tells the default logger what goes wrong.
func Logging() (*locker.Client, error) {
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Logger(slog.Default()))
	return client, err
}

// Watching returns a client that tells of long waits.
func Watching() (*locker.Client, error) {
	watch := locker.Observer{
		LockEnd: func(_ context.Context, e locker.LockEnd) {
			if e.Wait > time.Second {
				log.Printf("%s: waited %v for %s", e.Outcome(), e.Wait, e.Name)
			}
		},
	}
	client, err := locker.Open("goredis", "redis://localhost:6379/0", locker.Observe(watch))
	return client, err
}
