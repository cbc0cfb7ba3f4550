package servertest

import (
	"context"
	"fmt"
	"time"
)

// How long this package waits, on a machine that may be overloaded.
const (
	startTimeout   = 30 * time.Second // for a server to answer
	commandTimeout = 10 * time.Second // for the reply to a command
	agreeTimeout   = 60 * time.Second // for a Cluster or Sentinels to agree
	pollInterval   = 5 * time.Millisecond
)

// Await calls check until it returns nil. When ctx ends first it returns an error
// that says what check found last.
func Await(ctx context.Context, check func() error) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", context.Cause(ctx), err)
		case <-ticker.C:
		}
	}
}
