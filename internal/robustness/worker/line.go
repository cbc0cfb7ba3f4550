package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// Line has clients come one after the other for each lock that was wanted by many, now that
// no fault is left and nobody else there: each asks when the one before is certain to
// stand in the server's queue. The first of them holds the lock until all do. What it finds
// is in the histories, one for each client.
func Line(ctx context.Context, within time.Duration, cfgs ...Config) (err error) {
	var line []*hand
	for _, cfg := range cfgs {
		log, err := history.Create(cfg.History)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, log.Close()) }()
		client, err := open(cfg.Target, redlock.Config{LongestTTL: cfg.Longest}, locker.Label(cfg.Name), locker.TTL(cfg.TTL))
		if err != nil {
			return err
		}
		defer func() { _ = client.Close() }() // what it names is free when its lease is over
		line = append(line, &hand{cfg: cfg, name: cfg.Name, client: client, log: log, rand: rand.New(rand.NewPCG(cfg.Seed, 0))})
	}
	for _, l := range Locks(0)[:popular] {
		ctx, cancel := context.WithTimeout(ctx, within)
		lineUp(ctx, l, line[0], line[1:])
		cancel()
	}
	for _, h := range line {
		h.besides.Wait()
	}
	return nil
}

// lineUp has the waiters come for a lock, and lets them have it.
func lineUp(ctx context.Context, l Lock, holder *hand, waiters []*hand) {
	e := history.Event{Name: l.Name, Mode: l.Kind.strictest(), TTL: history.Time(holder.cfg.TTL)}
	mutex := func(h *hand) *locker.Mutex { return h.client.Mutex(l.Name, options(e.Mode)...) }
	held := holder.take(e, func() (*locker.Lease, error) { return lockForSure(ctx, mutex(holder)) })
	if held == nil {
		return // which the probe of that lock has found, too
	}
	before, _ := holder.waiting(ctx, l, 0)
	var all sync.WaitGroup
	for i, w := range waiters {
		asks := make(chan history.Event, 1)
		all.Go(func() {
			lease := w.take(e, func() (*locker.Lease, error) {
				asks <- history.Event{What: history.Queued, Worker: w.name, Op: w.op, Name: e.Name, Mode: e.Mode}
				return lockForSure(ctx, mutex(w))
			})
			if lease != nil {
				lease.look()
				lease.unlock()
			}
		})
		queued := <-asks
		// Who stood there before only leaves.
		if _, known := holder.waiting(ctx, l, before+i+1); known {
			queued.At = history.Now()
			w.record(queued)
		}
	}
	held.look()
	held.unlock()
	all.Wait()
}

// waiting returns how many wait for a lock once there are so many, or false if that never
// was seen.
func (h *hand) waiting(ctx context.Context, l Lock, least int) (n int, seen bool) {
	for {
		status, err := h.client.Inspect(ctx, l.Name)
		if err == nil && status.Waiters >= least {
			return status.Waiters, true
		}
		if ctx.Err() != nil {
			return 0, false
		}
		sleep(ctx, lookInterval/10)
	}
}
