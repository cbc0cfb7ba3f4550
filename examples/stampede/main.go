// Stampede keeps the callers of a cache from computing the same value all at once when it
// expires, four hosts with twenty-five callers each.
//
//	go run ./examples/stampede
//	go run ./examples/stampede -driver rueidis -url redis://localhost:6379/0
//
// The value is expensive, popular, and expires. In the moment that it does, everybody
// finds the cache empty and turns to the database, which is busy with a hundred times the
// same query: the stampede, or thundering herd.
//
//   - Wait for it: whoever finds the cache empty takes the lock on the value, and looks
//     into the cache AGAIN. One computes, the others find the value there. (Without the
//     second look they would compute one after the other, which is worse than the
//     stampede.) Callers of one process share a place in the queue, so the server sees
//     four waiters here and not a hundred.
//   - Have the old one: keep the value for longer than it is fresh. Whoever finds it stale
//     tries the lock, without waiting; one gets it and computes, the others take
//     the stale value at once. Nobody waits but the one who computes.
//
// In both ways the lock saves work only; nothing breaks if two compute. So it needs no
// fencing, and a caller that cannot reach the lock's server may as well compute.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/locker"
)

const (
	hosts   = 4
	callers = 25                    // on each host
	query   = 80 * time.Millisecond // how long it takes to compute the value
)

var program = demo.Program{
	Name:  "stampede",
	Title: fmt.Sprintf("%d callers, one value that expires", hosts*callers),
	TTL:   10 * time.Second,
	Play:  play,
}

func main() { program.Main() }

func play(ctx context.Context, s *demo.Stage) error {
	clients, err := s.Hosts(hosts)
	if err != nil {
		return err
	}
	ways := []struct {
		name string
		get  func(*cache, context.Context, *locker.Client) (value, error)
	}{
		{"no lock", (*cache).getUnguarded},
		{"wait for it", (*cache).getWaiting},
		{"have the old one", (*cache).getStale},
	}
	for _, way := range ways {
		c := &cache{}
		c.value = c.compute() // which is not fresh any more
		r, err := rush(ctx, clients, c, way.get)
		if err != nil {
			return err
		}
		s.Say("%-17s computed %3d times, %3d callers had the old value, the slowest waited %v",
			way.name+":", r.computed, r.stale, r.slowest.Round(time.Millisecond))
		switch way.name {
		case "wait for it":
			s.Promise(r.computed == 1 && r.stale == 0, "one computed, and all have what it computed")
		case "have the old one":
			s.Promise(r.computed == 1, "one computed, and the others did not wait for it")
		}
	}
	return nil
}

// A report is what a rush of callers came to.
type report struct {
	computed, stale int
	slowest         time.Duration
}

// rush has all callers ask for the value at the same time.
func rush(ctx context.Context, clients []*locker.Client, c *cache, get func(*cache, context.Context, *locker.Client) (value, error)) (report, error) {
	before := c.computed.Load()
	var r report
	var mu sync.Mutex
	var failure error
	var all sync.WaitGroup
	begun := time.Now()
	for _, client := range clients {
		for range callers {
			all.Go(func() {
				v, err := get(c, ctx, client)
				mu.Lock()
				defer mu.Unlock()
				failure = errors.Join(failure, err)
				if int64(v) <= before {
					r.stale++
				}
				r.slowest = max(r.slowest, time.Since(begun))
			})
		}
	}
	all.Wait()
	r.computed = int(c.computed.Load() - before)
	return r, failure
}

// A value is the result of a query: its number.
type value int64

// A cache stands for one that all hosts share.
type cache struct {
	computed atomic.Int64

	mu    sync.Mutex
	value value // 0 is nothing
	fresh bool
}

func (c *cache) look() (v value, fresh bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.value, c.fresh
}

func (c *cache) put(v value) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.value, c.fresh = v, true
}

// compute asks the database.
func (c *cache) compute() value {
	n := c.computed.Add(1)
	time.Sleep(query)
	return value(n)
}

func (c *cache) getUnguarded(context.Context, *locker.Client) (value, error) {
	if v, fresh := c.look(); fresh {
		return v, nil
	}
	v := c.compute()
	c.put(v)
	return v, nil
}

// getWaiting waits for whoever computes the value.
func (c *cache) getWaiting(ctx context.Context, client *locker.Client) (value, error) {
	v, fresh := c.look()
	if fresh {
		return v, nil
	}
	err := client.Do(ctx, "value", func(context.Context) error {
		if v, fresh = c.look(); fresh {
			return nil // computed while we waited
		}
		v = c.compute()
		c.put(v)
		return nil
	})
	return v, err
}

// getStale waits for nobody.
func (c *cache) getStale(ctx context.Context, client *locker.Client) (value, error) {
	v, fresh := c.look()
	if fresh {
		return v, nil
	}
	lease, err := client.Mutex("value").TryLock(ctx)
	if errors.Is(err, locker.ErrLocked) {
		return v, nil // somebody computes; the old one will do
	}
	if err != nil {
		return v, err
	}
	defer lease.Unlock(context.WithoutCancel(ctx))
	if v, fresh = c.look(); fresh {
		return v, nil
	}
	v = c.compute()
	c.put(v)
	return v, nil
}
