package scenarios

import (
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
)

// warmPairs makes a locker connect and load its scripts.
func warmPairs(l contestants.Locker, n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	for range n {
		unlock, err := l.Lock(ctx, "warm")
		if err != nil {
			return err
		}
		if err := unlock(); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns a new locker on an empty server, and what inScripts says of the workload.
func (e *Env) fresh(s contestants.Spec, clients int) (l contestants.Locker, inScripts map[string]float64, err error) {
	if inScripts, err = e.inScripts(s, clients); err != nil {
		return nil, nil, err
	}
	if err := e.srv.Flush(); err != nil {
		return nil, nil, err
	}
	l, err = s.New(e.options())
	return l, inScripts, err
}

// A workload is what a scenario makes a contestant do. What it sends by itself in one, it
// may leave to scripts in another.
type workload struct {
	contestant string
	clients    int // that want one key; 0 if nobody competes
}

// inScripts finds, once for each contestant and workload, which share of each command it
// runs in scripts, by watching acquisitions and renewals. Redis counts commands of
// scripts like any other; this is how those that were sent are told from them.
func (e *Env) inScripts(s contestants.Spec, clients int) (map[string]float64, error) {
	w := workload{s.Name, clients}
	if known, ok := e.traces[w]; ok || !s.Locks() {
		return known, nil
	}
	if err := e.srv.Flush(); err != nil {
		return nil, err
	}
	o := e.options()
	if clients == 0 && s.Uses&contestants.UseHeld != 0 {
		o.TTL, o.Renew, o.Stats = 300*time.Millisecond, true, new(contestants.Renewals)
	}
	var lockers []contestants.Locker
	for range max(clients, 1) {
		l, err := s.New(o)
		if err != nil {
			return nil, err
		}
		defer l.Close()
		if err := warmPairs(l, 3); err != nil {
			return nil, err
		}
		lockers = append(lockers, l)
	}
	// What a client does once in its life, such as to subscribe, is not part of it.
	if clients > 0 {
		jostle(lockers, 200*time.Millisecond)
	}
	_, found, err := e.srv.Trace(func() {
		switch {
		case clients > 0:
			jostle(lockers, 300*time.Millisecond)
			linger(lockers[0], lockers[len(lockers)-1], 1500*time.Millisecond)
		case o.Renew:
			if unlock, err := lockers[0].Lock(context.Background(), "renewed"); err == nil {
				time.Sleep(o.TTL * 5 / 6)
				unlock() // whether it was still held is not the question here
			}
			fallthrough
		default:
			_ = warmPairs(lockers[0], 3)
		}
	})
	if err != nil {
		return nil, err
	}
	if e.traces == nil {
		e.traces = map[workload]map[string]float64{}
	}
	e.traces[w] = found
	return found, nil
}

// jostle has three goroutines, or one of each locker, take turns on a key for a while. Errors do not matter.
func jostle(lockers []contestants.Locker, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	for i := range max(3, len(lockers)) {
		l := lockers[i%len(lockers)]
		wg.Go(func() {
			for ctx.Err() == nil {
				if unlock, err := l.Lock(ctx, "contended"); err == nil {
					time.Sleep(5 * time.Millisecond)
					unlock()
				}
			}
		})
	}
	wg.Wait()
}

// linger has one wait for so long that it looks whether the lock is still held, which
// may not be what a newcomer does.
func linger(holder, waiter contestants.Locker, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	if unlock, err := holder.Lock(ctx, "lingered"); err == nil {
		defer unlock()
	}
	if unlock, err := waiter.Lock(ctx, "lingered"); err == nil {
		unlock()
	}
}

// waitFor waits until the group is done, but no longer than limit.
func waitFor(wg *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}
