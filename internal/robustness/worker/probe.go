package worker

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// atOnce is how many locks are probed at a time.
const atOnce = 25

// Probe takes every lock of a round once, when no fault is left and nobody else there: each
// can be had after the longest lease at the latest, whoever has died with it. It writes
// down when each was had, counted from when it was asked for, or that it was not had
// within the time.
func Probe(ctx context.Context, cfg Config, log *history.Log, within time.Duration) error {
	client, err := open(cfg.Target, redlock.Config{LongestTTL: cfg.Longest}, locker.Label(cfg.Name), locker.TTL(cfg.TTL))
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, l := range Locks(cfg.Locks) {
		all.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, within)
			defer cancel()
			return probe(ctx, client, l, log)
		})
	}
	err = all.Wait()
	_ = client.Close() // what it names is free when its lease is over
	return err
}

func probe(ctx context.Context, client *locker.Client, l Lock, log *history.Log) error {
	e := history.Event{Since: history.Now(), What: history.Probed, Name: l.Name, Mode: l.Kind.strictest()}
	lease, err := lockForSure(ctx, client.Mutex(l.Name, options(e.Mode)...))
	e.At = history.Now()
	if err != nil {
		e.Error, e.Class = err.Error(), classify(err)
		return log.Add(e)
	}
	e.Token = uint64(lease.Token())
	// What came late from a worker that is gone may have ended the lease. It was had.
	_ = lease.Unlock(ctx)
	return log.Add(e)
}

// lockForSure waits for a lock also if the client's very first request fails.
func lockForSure(ctx context.Context, m *locker.Mutex) (*locker.Lease, error) {
	for {
		lease, err := m.Lock(ctx)
		if err == nil || ctx.Err() != nil || !errors.Is(err, locker.ErrUnavailable) {
			return lease, err
		}
		sleep(ctx, lookInterval)
	}
}

// Settle makes servers that are new part of a quorum, as somebody does who sets one up.
// Others need no such thing.
func Settle(ctx context.Context, cfg Config) error {
	// A node that does not take part now has to wait for as long as a lease may last.
	all := redlock.Config{LongestTTL: cfg.Longest, Bootstrap: true, NodeTimeout: 10 * time.Second}
	client, err := open(cfg.Target, all, locker.Label(cfg.Name), locker.TTL(cfg.TTL))
	if err != nil {
		return err
	}
	lease, err := client.Mutex("first").Lock(ctx)
	if err != nil {
		return errors.Join(err, client.Close())
	}
	return errors.Join(lease.Unlock(ctx), client.Close())
}
