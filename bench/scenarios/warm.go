package scenarios

import (
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/bench/contestants"
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

// inScripts finds, once for each contestant, which commands it runs in scripts only,
// by watching free and contended acquisitions and renewals. Redis counts commands of
// scripts like any other; this is how those that were sent are told from them.
func (e *Env) inScripts(s contestants.Spec) (map[string]bool, error) {
	if known, ok := e.scripts[s.Name]; ok || !s.Locks() {
		return known, nil
	}
	if err := e.srv.Flush(); err != nil {
		return nil, err
	}
	o := e.options()
	if s.Uses&contestants.UseHeld != 0 {
		o.TTL, o.Renew, o.Stats = 300*time.Millisecond, true, new(contestants.Renewals)
	}
	l, err := s.New(o)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	if err := warmPairs(l, 3); err != nil {
		return nil, err
	}
	_, found, err := e.srv.Trace(func() {
		if o.Renew {
			if unlock, err := l.Lock(context.Background(), "renewed"); err == nil {
				time.Sleep(o.TTL * 5 / 6)
				unlock() // whether it was still held is not the question here
			}
		}
		jostle(l, 300*time.Millisecond)
	})
	if err != nil {
		return nil, err
	}
	if e.scripts == nil {
		e.scripts = map[string]map[string]bool{}
	}
	e.scripts[s.Name] = found
	return found, nil
}

// jostle has three goroutines take turns on a key for a while. Errors do not matter.
func jostle(l contestants.Locker, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
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
