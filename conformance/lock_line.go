package conformance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker"
)

// lockLineCases: goroutines of one client pass a lock on among themselves, and other
// clients have their turn.
var lockLineCases = []testCase{
	lockCase("Line/Order", needs{}, func(k *lockKit) {
		k.modes(func(name string, opts ...locker.Option) {
			c := k.client()
			m := c.Mutex(name, append(opts, locker.TTL(k.times.long))...)
			held := k.take(m)
			var waiting []*grant
			for range 4 {
				waiting = append(waiting, k.later(k.ctx, m))
				time.Sleep(k.time.short / 6)
			}
			for i, g := range waiting {
				former, before := held, k.sent(name)
				k.unlock(former)
				held = k.granted(g, k.times.grant, fmt.Sprintf("goroutine number %d of 4, whose turn it is,", i+1))
				if n := k.sent(name) - before; n > 4 {
					k.Errorf("%d commands for passing the lock on within a client", n)
				}
				k.valid(held, "passed on")
				if former.Token() > 0 && held.Token() <= former.Token() {
					k.Errorf("a goroutine was given the token %d after %d", held.Token(), former.Token())
				}
				if err := former.Err(); !errors.Is(err, locker.ErrReleased) {
					k.Errorf("a lease that was passed on has the error %v", err)
				}
				k.unlock(former) // again, which touches nothing
				k.valid(held, "after its predecessor's second Unlock")
			}
			k.unlock(held)
			k.free(name, "after the last Unlock")
		})
	}),
	lockCase("Line/Others", needs{subscriber: true}, func(k *lockKit) {
		// A client that passes the lock on without end lets another one have it soon.
		k.modes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			ctx, stop := context.WithCancel(k.ctx)
			defer stop()
			m := k.client().Mutex(name, opts...)
			var last locker.Token // that was seen, guarded by the lock
			var inside atomic.Int32
			visit := func(l *locker.Lease) {
				if inside.Add(1) != 1 {
					k.Errorf("two hold the lock")
				}
				if t := l.Token(); t < last || t == last && t != 0 {
					k.Errorf("the token is %d after %d", t, last)
				}
				last = l.Token()
				time.Sleep(time.Millisecond)
				inside.Add(-1)
			}
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for ctx.Err() == nil {
						l, err := m.Lock(k.ctx)
						if err != nil {
							k.Errorf("Lock gave %v", err)
							return
						}
						visit(l)
						if err := l.Unlock(k.ctx); err != nil {
							k.Errorf("Unlock gave %v", err)
						}
					}
				})
			}
			other := k.client().Mutex(name, append(opts, k.patient())...)
			for range 5 {
				time.Sleep(k.time.short / 6)
				l := k.granted(k.later(k.ctx, other), k.times.grant, "another client")
				visit(l)
				k.unlock(l)
			}
			stop()
			all.Wait()
			k.free(name, "after all")
		})
	}),
}
