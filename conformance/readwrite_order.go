package conformance

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker"
)

// readWriteOrderCases: readers and writers are served in the order in which they came.
var readWriteOrderCases = []testCase{
	readWriteCase("Order", needs{subscriber: true}, func(k *lockKit) {
		// Nobody overtakes: a reader does not overtake a writer that waits, nor does a
		// newcomer overtake those who wait.
		name := k.key("lock")
		a, b := k.client(), k.client()
		line := []*locker.Mutex{
			k.reading(b, name, k.patient()), k.writing(a, name, k.patient()), k.reading(a, name, k.patient()),
			k.writing(b, name, k.patient()), k.writing(a, name, k.patient()), k.reading(b, name, k.patient()),
		}
		held := k.take(k.writing(a, name))
		var waiting []*grant
		for i, m := range line {
			waiting = append(waiting, k.later(k.ctx, m))
			k.waiters(name, i+1)
		}
		for i, g := range waiting {
			k.unlock(held)
			held = k.granted(g, k.times.grant, fmt.Sprintf("number %d in line", i+1))
			if i+1 < len(waiting) {
				k.waits(waiting[i+1], fmt.Sprintf("number %d in line", i+2))
				if _, err := k.reading(b, name).TryLock(k.ctx); err == nil {
					k.Errorf("a newcomer reads together with number %d in line, a writer waiting", i+1)
				}
			}
		}
		k.unlock(held)
		k.free(name, "after the last Unlock")
	}),
	readWriteCase("WakeTogether", needs{subscriber: true}, func(k *lockKit) {
		// Readers that stand next to each other are let in by one request of the
		// writer before them, and send none themselves.
		const readers = 8
		name := k.key("lock")
		c, giver := k.client(), k.undisturbed()
		k.listen(c)
		k.warm(giver, locker.ForWriting())
		w := k.take(k.writing(giver, name))
		var waiting []*grant
		for i := range readers {
			waiting = append(waiting, k.later(k.ctx, k.reading(c, name, k.patient())))
			k.waiters(name, i+1)
		}
		last := k.later(k.ctx, k.writing(giver, name, k.patient()))
		k.waiters(name, readers+1)
		n := k.sent(name)
		k.unlock(w)
		var held []*locker.Lease
		for _, g := range waiting {
			held = append(held, k.granted(g, k.times.grant, "one of the readers"))
		}
		if n := k.sent(name) - n; n != 0 {
			k.Errorf("%d readers sent %d commands while they were let in; want none", readers, n)
		}
		for _, l := range held {
			k.waits(last, "the writer behind the readers")
			k.valid(l, "let in together")
			k.unlock(l)
		}
		k.unlock(k.granted(last, k.times.grant, "the writer behind the readers"))
	}),
	readWriteCase("NoStarvation", needs{}, func(k *lockKit) {
		// A stream of readers does not keep a writer out, nor does a stream of writers
		// keep a reader out: a waiter waits for those who came before it.
		section := k.times.ttl / 100
		for what, sides := range map[string][2]func(*locker.Client, string, ...locker.Option) *locker.Mutex{
			"a writer among readers": {k.reading, k.writing},
			"a reader among writers": {k.writing, k.reading},
		} {
			name := k.key(what)
			ctx, cancel := context.WithCancel(k.ctx)
			var passed atomic.Int64
			var all sync.WaitGroup
			for i := range 6 {
				m := sides[0](k.client(), name)
				all.Go(func() {
					k.pause(ctx, time.Duration(i)*section/6)
					for ctx.Err() == nil {
						l, err := m.Lock(ctx)
						if err != nil {
							return
						}
						k.pause(ctx, section)
						k.unlock(l)
						passed.Add(1)
					}
				})
			}
			one := sides[1](k.client(), name)
			for range 5 {
				n := passed.Load()
				k.eventually(k.time.bound, func() bool { return passed.Load() > n+6 })
				// Each waiter before it uses the lock that it is granted once it finds out.
				l := k.granted(k.later(k.ctx, one), 6*(section+k.pollTime())+k.times.grant+k.pollTime(), what)
				k.unlock(l)
			}
			if passed.Load() < 30 {
				k.Errorf("%s: of the others %d were served", what, passed.Load())
			}
			cancel()
			all.Wait()
			k.soonFree(name, "after all have gone")
		}
	}),
}

// told returns the options of a waiter that finds out nothing by itself where the
// driver has a Subscriber.
func (k *lockKit) told() []locker.Option {
	if k.h.Capabilities.Subscriber {
		return []locker.Option{k.patient()}
	}
	return nil
}

// pollTime is what a waiter with these options may take to find out by itself.
func (k *lockKit) pollTime() time.Duration {
	if k.h.Capabilities.Subscriber {
		return 0
	}
	return k.times.poll
}
