// Package operating is the code of docs/operations.md.
package operating

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"
	"time"

	_ "github.com/golocker/golocker/drivers/goredis" // for Open by name
	"github.com/golocker/golocker/locker"
)

// The data source names of each kind of deployment.
const (
	Single   = "redis://locks:password@10.0.0.1:6379/0"
	Unix     = "unix://locks:password@/run/redis/redis.sock"
	TLS      = "rediss://locks:password@redis.internal:6379?tls_ca=/etc/locks/ca.pem&tls_cert=/etc/locks/client.pem&tls_key=/etc/locks/client.key"
	Sentinel = "redis://locks:password@10.0.0.1,10.0.0.2,10.0.0.3?mode=sentinel&master=mymaster&sentinel_password=secret"
	Cluster  = "redis://locks:password@10.0.0.1:6379,10.0.0.2:6379?mode=cluster&timeout=1s&pool_size=20"
)

// Open returns a client that is easy to find again in the server and in the holders of
// its locks.
func Open(dsn, service string) (*locker.Client, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	client, err := locker.Open("goredis", dsn,
		locker.Prefix("locks:"),
		locker.Label(fmt.Sprintf("%s@%s:%d", service, host, os.Getpid())),
		locker.TTL(15*time.Second),
	)
	return client, err
}

// Probe takes a lock of its own and gives it up: what a health check has to do, since a
// server that answers PING may be read-only, full, or without permissions.
func Probe(ctx context.Context, client *locker.Client, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	lease, err := client.Mutex("probe:"+host, locker.TTL(5*time.Second)).TryLock(ctx)
	if errors.Is(err, locker.ErrLocked) {
		return nil // another probe of this host has it: the server serves
	} else if err != nil {
		return err
	}
	return lease.Unlock(ctx)
}

// Report says what an operator wants to know of an error of a lock.
func Report(err error) string {
	switch {
	case errors.Is(err, locker.ErrLost):
		return "lost: look at the server, and at pauses of this process"
	case errors.Is(err, locker.ErrUnavailable):
		return "the server cannot be reached, or cannot serve"
	case errors.Is(err, locker.ErrLocked):
		if locked, ok := errors.AsType[*locker.LockedError](err); ok {
			log.Printf("held by %s for %v", locked.Holder.Label, locked.Holder.Remaining)
		}
		return "held by somebody else"
	case errors.Is(err, locker.ErrForeign):
		return "two programs use one key for different things"
	default:
		return "refused: see the error"
	}
}

// BreakStale ends the leases of a holder that is known to be dead, and nobody else's. It may be
// called again, if it is not known whether it has done so.
func BreakStale(ctx context.Context, client *locker.Client, name, deadLabel string) error {
	status, err := client.Inspect(ctx, name)
	if err != nil {
		return err
	}
	dead := slices.DeleteFunc(status.Holders, func(h locker.Holder) bool { return h.Label != deadLabel })
	_, err = client.ForceReleaseFrom(ctx, name, dead...)
	return err
}
