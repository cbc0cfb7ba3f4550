package conformance

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker"
)

// readWriteCase makes a case of the level "ReadWrite": readers share a lock, and a
// writer is alone.
func readWriteCase(name string, n needs, run func(*lockKit)) testCase {
	return levelCase("ReadWrite/"+name, n, run)
}

// readWriteCases is that level.
var readWriteCases = slices.Concat(
	readWriteShareCases,
	readWriteDeadlineCases,
	readWriteOrderCases,
	readWriteChangeCases,
	readWriteRequestCases,
	readWriteChaosCases,
)

// reading returns the reading side of a fenced read-write lock with a long TTL, unless
// the options say otherwise.
func (k *lockKit) reading(c *locker.Client, name string, opts ...locker.Option) *locker.Mutex {
	return c.Mutex(name, append([]locker.Option{locker.ForReading(), locker.Fenced(), locker.TTL(k.times.long)}, opts...)...)
}

// writing returns the writing side.
func (k *lockKit) writing(c *locker.Client, name string, opts ...locker.Option) *locker.Mutex {
	return c.Mutex(name, append([]locker.Option{locker.ForWriting(), locker.Fenced(), locker.TTL(k.times.long)}, opts...)...)
}

// isLocked checks that a TryLock is refused, because of a holder in this mode.
func (k *lockKit) isLocked(m *locker.Mutex, by locker.Mode, when string) {
	l, err := m.TryLock(k.ctx)
	if locked, ok := errors.AsType[*locker.LockedError](err); !ok || locked.Holder.Mode != by {
		k.Errorf("%s: TryLock gave (%v, %v); want a *LockedError with a holder that is %s", when, l, err, by)
	}
	if l != nil {
		k.unlock(l)
	}
}

// readWriteShareCases: who holds the lock together with whom, and what others see of that.
var readWriteShareCases = []testCase{
	readWriteCase("Share", needs{}, func(k *lockKit) {
		// Any number of readers, of one client or several. A writer has to wait for
		// the last of them.
		name := k.key("lock")
		a, b := k.client(), k.client()
		var readers []*locker.Lease
		for _, c := range []*locker.Client{a, b, a, b, a} {
			l, err := k.reading(c, name).TryLock(k.ctx)
			if err != nil {
				k.Fatalf("TryLock for reading while others read gave %v", err)
			}
			if l.Mode() != locker.Reading {
				k.Errorf("the mode of a reader's lease is %q", l.Mode())
			}
			readers = append(readers, l)
		}
		k.isLocked(k.writing(b, name), locker.Reading, "while readers hold the lock")
		writer := k.later(k.ctx, k.writing(b, name))
		k.waiters(name, 1)
		for i, l := range readers {
			k.valid(l, "shared")
			if i == len(readers)-1 {
				k.waits(writer, "a writer, while a reader is left,")
			}
			k.unlock(l)
		}
		l := k.granted(writer, k.times.poll+k.times.grant, "a writer, the last reader having gone,")
		if l.Mode() != locker.Writing {
			k.Errorf("the mode of a writer's lease is %q", l.Mode())
		}
		k.unlock(l)
		k.free(name, "after the last Unlock")
	}),
	readWriteCase("Alone", needs{}, func(k *lockKit) {
		// A writer excludes readers and other writers, of whatever client.
		name := k.key("lock")
		clients := []*locker.Client{k.client(), k.client(), k.client()}
		w := k.take(k.writing(clients[0], name))
		for _, c := range clients {
			k.isLocked(k.reading(c, name), locker.Writing, "while a writer holds the lock")
			k.isLocked(k.writing(c, name), locker.Writing, "while a writer holds the lock")
		}
		k.valid(w, "alone")
		k.unlock(w)

		var readers, writers atomic.Int64
		var all sync.WaitGroup
		for _, c := range clients {
			for range 3 {
				all.Go(func() {
					for range 4 {
						l := k.take(k.reading(c, name))
						readers.Add(1)
						if n := writers.Load(); n > 0 {
							k.Errorf("a reader has the lock together with %d writers", n)
						}
						time.Sleep(time.Millisecond)
						readers.Add(-1)
						k.unlock(l)
					}
				})
			}
			all.Go(func() {
				for range 4 {
					l := k.take(k.writing(c, name))
					if r, w := readers.Load(), writers.Add(1); r > 0 || w > 1 {
						k.Errorf("a writer has the lock together with %d readers and %d writers", r, w-1)
					}
					time.Sleep(time.Millisecond)
					writers.Add(-1)
					k.unlock(l)
				}
			})
		}
		all.Wait()
		k.free(name, "after the last Unlock")
	}),
	readWriteCase("Tokens", needs{}, func(k *lockKit) {
		// A writer's token is larger than all before; readers get the token of the last
		// writer, whether they had to wait or not.
		name := k.key("lock")
		a, b := k.client(), k.client()
		first := k.take(k.reading(a, name))
		if first.Token() != 0 {
			k.Errorf("a reader has the token %d and nobody has written", first.Token())
		}
		k.unlock(first)
		var last locker.Token
		for range 3 {
			w := k.take(k.writing(a, name))
			if w.Token() <= last {
				k.Errorf("a writer has the token %d after %d", w.Token(), last)
			}
			last = w.Token()
			waiting := k.later(k.ctx, k.reading(b, name))
			k.waiters(name, 1)
			k.unlock(w)
			for _, r := range []*locker.Lease{k.granted(waiting, k.times.poll+k.times.grant, "a reader"), k.take(k.reading(a, name)), k.take(k.reading(b, name))} {
				if r.Token() != last {
					k.Errorf("a reader has the token %d; the last writer had %d", r.Token(), last)
				}
				k.unlock(r)
			}
		}
		if t := k.take(b.Mutex(k.key("plain"), locker.ForWriting())).Token(); t != 0 {
			k.Errorf("the token of a lock that is not fenced is %d; want 0", t)
		}
	}),
	readWriteCase("Inspect", needs{}, func(k *lockKit) {
		name, both := k.key("lock"), locker.NamedOwner("both")
		a := k.client(locker.Label("a"))
		want := map[string]int{"both": 2}
		for _, m := range []*locker.Mutex{
			k.reading(a, name, locker.As(both), locker.Metadata("a report")),
			k.reading(k.client(locker.Label("a")), name, locker.As(both), locker.Metadata("a report")),
		} {
			k.take(m)
		}
		third := k.take(k.reading(a, name, locker.Metadata("a report")))
		want[third.Owner().String()] = 1
		writer := k.later(k.ctx, k.writing(a, name))
		k.waiters(name, 1)
		s := k.inspect(name)
		for _, h := range s.Holders {
			if h.Remaining > k.times.long || h.Remaining < k.times.long-k.time.bound {
				k.Errorf("Inspect says that %v remain of %v", h.Remaining, k.times.long)
			}
			if w := (locker.Holder{Mode: locker.Reading, Owner: h.Owner, Holds: want[h.Owner], Label: "a", Metadata: "a report"}); !sameHolder(h, w) {
				k.Errorf("Inspect says that a holder is %+v; want %+v", h, w)
			}
		}
		if len(s.Holders) != len(want) || s.Waiters != 1 {
			k.Errorf("Inspect tells of %d holders and %d waiters; want %d and 1", len(s.Holders), s.Waiters, len(want))
		}
		k.direct("DEL", name)
		w := k.granted(writer, k.times.poll+k.times.grant, "the writer")
		h := k.inspect(name).Holders
		if len(h) != 1 || h[0].Mode != locker.Writing || h[0].Owner != w.Owner().String() || h[0].Token != w.Token() {
			k.Errorf("Inspect says that the holders are %+v; want the writer", h)
		}
		k.unlock(w)
	}),
	readWriteCase("ForceRelease", needs{}, func(k *lockKit) {
		// It ends the leases of all readers, and waiters are told.
		name := k.key("lock")
		c := k.client()
		var readers []*locker.Lease
		for range 3 {
			readers = append(readers, k.take(k.reading(c, name, locker.TTL(k.times.ttl))))
		}
		writer := k.later(k.ctx, k.writing(c, name))
		k.waiters(name, 1)
		h, err := k.undisturbed().ForceRelease(k.ctx, name)
		if err != nil || len(h) != 3 || h[0].Mode != locker.Reading {
			k.Errorf("ForceRelease gave (%+v, %v); want three readers", h, err)
		}
		w := k.granted(writer, k.times.poll+k.times.grant, "the writer after a force-release")
		for _, l := range readers {
			k.ended(l, k.times.ttl, locker.ErrLost)
			k.is("Unlock after a force-release", k.tryUnlock(l), locker.ErrNotHeld)
		}
		k.valid(w, "after its former holders' Unlock")
		k.unlock(w)
	}),
	readWriteCase("ForceReleaseFrom", needs{}, func(k *lockKit) {
		// It ends the lease of one reader, and others go on reading.
		name := k.key("lock")
		dead := k.take(k.reading(k.client(locker.Label("dead")), name, locker.TTL(k.times.ttl)))
		alive := k.take(k.reading(k.client(locker.Label("alive")), name, locker.TTL(k.times.long)))
		writer := k.later(k.ctx, k.writing(k.client(), name))
		k.waiters(name, 1)
		for _, h := range k.inspect(name).Holders {
			if h.Label != "dead" {
				continue
			}
			if h, err := k.undisturbed().ForceReleaseFrom(k.ctx, name, h); err != nil || len(h) != 1 || h[0].Label != "dead" {
				k.Errorf("ForceReleaseFrom gave (%+v, %v); want one reader", h, err)
			}
		}
		k.ended(dead, k.times.ttl, locker.ErrLost)
		k.is("Extend of a reader that was spared", alive.Extend(k.ctx, k.times.long), nil)
		k.unlock(alive)
		k.unlock(k.granted(writer, k.times.poll+k.times.grant, "the writer after the last reader"))
	}),
}
