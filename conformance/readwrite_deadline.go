package conformance

import (
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// readWriteDeadlineCases: every reader, and the writer, has a deadline of its own, and
// learns of its loss in time.
var readWriteDeadlineCases = []testCase{
	readWriteCase("OwnDeadlines", needs{}, func(k *lockKit) {
		// A reader of 300 ms beside one of 30 s, in either order: neither changes
		// the other's deadline, here or on the server.
		const brief, long = 300 * time.Millisecond, 30 * time.Second
		var all sync.WaitGroup
		for what, ttls := range map[string][]time.Duration{"the long one first": {long, brief}, "the brief one first": {brief, long}} {
			all.Go(func() {
				name := k.key(what)
				held := map[time.Duration]*locker.Lease{}
				deadlines, ends := map[time.Duration]time.Time{}, map[time.Duration]time.Time{}
				check := func() {
					for ttl, l := range held {
						if d := l.Deadline(); !d.IsZero() && !d.Equal(deadlines[ttl]) {
							k.Errorf("%s: a reader of %v has its deadline moved by %v", what, ttl, d.Sub(deadlines[ttl]))
						}
						limit := max(0, time.Until(ends[ttl])) + 2*time.Millisecond // rounding
						if left := k.serverLeft(l); left > limit {
							k.Errorf("%s: the server holds the lock for %v more for a reader of %v", what, left, ttl)
						}
					}
					if l := held[long]; l != nil {
						k.valid(l, what)
						if left := k.left(name); left < time.Until(deadlines[long]) {
							k.Errorf("%s: the server lets go of the lock in %v", what, left)
						}
					}
				}
				var begun time.Time
				for _, ttl := range ttls {
					if ttl == brief {
						begun = time.Now()
					}
					l := k.take(k.reading(k.client(), name, locker.TTL(ttl), locker.NoRenewal()))
					held[ttl], deadlines[ttl], ends[ttl] = l, l.Deadline(), time.Now().Add(ttl)
					check()
				}
				k.ended(held[brief], brief, locker.ErrLost)
				time.Sleep(time.Until(begun.Add(brief + k.times.late)))
				check()
				k.isLocked(k.writing(k.undisturbed(), name), locker.Reading, what+", the brief reader's time being over")
				k.holds(name, 1, what+", the brief reader's time being over")
				k.unlock(held[long])
				k.free(name, "after the long reader's Unlock")
			})
		}
		all.Wait()
	}),
	readWriteCase("CrashedReader", needs{}, func(k *lockKit) {
		// A reader that crashed delays a writer by the rest of its own lease, and no
		// less, though another reader's lease would have lasted for much longer.
		name := k.key("lock")
		alive := k.take(k.reading(k.client(), name))
		begun := time.Now()
		k.take(k.reading(k.client(), name, locker.TTL(2*k.times.ttl), locker.NoRenewal()))
		writer := k.later(k.ctx, k.writing(k.client(), name))
		time.Sleep(k.times.ttl)
		k.unlock(alive)
		l := k.granted(writer, k.times.ttl+k.times.poll+k.times.grant, "a writer, one reader having crashed,")
		if early := begun.Add(2 * k.times.ttl).Sub(writer.at); early > 10*time.Millisecond {
			k.Errorf("a writer had the lock %v before a crashed reader's time was over", early)
		}
		k.unlock(l)
	}),
	readWriteCase("Loss", needs{}, func(k *lockKit) {
		// Readers and writers that are cut off learn of the loss before a conflicting
		// holder begins. Other readers keep the lock.
		faults := map[string]func(*wire.Wire) (mend func()){
			"nothing passes":    func(w *wire.Wire) func() { w.Partition(); return w.Heal },
			"requests are lost": func(w *wire.Wire) func() { return w.On(wire.Match{Arg: k.prefix, Times: -1}, wire.CutRequest).Remove },
		}
		var all sync.WaitGroup
		for fault, cut := range faults {
			for _, mode := range []locker.Mode{locker.Reading, locker.Writing} {
				all.Go(func() {
					what := string(mode) + ", " + fault
					name, w := k.key(what), k.newWire()
					m, next := k.reading(k.clientVia(w), name, locker.TTL(k.times.ttl)), k.writing(k.undisturbed(), name)
					if mode == locker.Writing {
						m, next = k.writing(k.clientVia(w), name, locker.TTL(k.times.ttl)), k.reading(k.undisturbed(), name)
					}
					l := k.take(m)
					time.Sleep(k.times.ttl / 2)
					k.valid(l, what+", before the network fails")
					ends := k.watch(l)
					mend := cut(w)
					if mode == locker.Reading {
						other := k.take(k.reading(k.undisturbed(), name, locker.TTL(k.times.ttl)))
						k.ended(l, k.times.ttl, locker.ErrLost)
						time.Sleep(k.times.ttl / 4)
						k.valid(other, "a reader, another one having been lost")
						k.unlock(other)
					}
					g := k.later(k.ctx, next)
					successor := k.granted(g, 2*k.times.ttl+k.times.poll, what+": the next holder")
					ends.before(g.at)
					k.ended(l, k.times.prompt, locker.ErrLost)
					mend()
					time.Sleep(k.times.ttl / 4)
					k.is(what+": Unlock of the lease that was lost", k.tryUnlock(l), locker.ErrTaken)
					k.valid(successor, what+", mended")
					k.unlock(successor)
				})
			}
		}
		all.Wait()
	}),
}
