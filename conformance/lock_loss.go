package conformance

import (
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// lockLossCases: a holder that loses a lock learns of it in time.
var lockLossCases = []testCase{
	lockCase("Loss/Partition", needs{}, func(k *lockKit) {
		// The first holder's context ends before the second holder begins,
		// whatever the network does to the first.
		faults := map[string]func(*wire.Wire) (mend func()){
			"nothing passes":          func(w *wire.Wire) func() { w.Partition(); return w.Heal },
			"connections fall silent": func(w *wire.Wire) func() { w.HangDials(); w.Mute(); return w.ResumeDials },
			"connections are refused": func(w *wire.Wire) func() { w.Refuse(true); w.KillAll(); return func() { w.Refuse(false) } },
			"requests are lost":       func(w *wire.Wire) func() { return w.On(wire.Match{Arg: k.prefix, Times: -1}, wire.CutRequest).Remove },
		}
		var all sync.WaitGroup
		for fault, cut := range faults {
			all.Go(func() {
				name := k.key(fault)
				w := k.newWire()
				l := k.take(k.clientVia(w).Mutex(name, locker.TTL(k.times.ttl)))
				g := k.later(k.ctx, k.undisturbed().Mutex(name, locker.TTL(k.times.long)))
				time.Sleep(k.times.ttl / 2)
				k.valid(l, "before the network fails")
				var ended time.Time
				seen := make(chan struct{})
				context.AfterFunc(l.Context(), func() { ended = time.Now(); close(seen) })
				mend := cut(w)
				next := k.granted(g, 3*k.times.ttl+k.times.poll, "after '"+fault+"' the second holder")
				if l.Valid() {
					k.Errorf("%s: the second holder has begun and the first lease is still valid", fault)
				}
				k.await(seen, k.times.prompt, fault+": the second holder has begun and the first lease's context has not ended")
				if !ended.Before(g.at) {
					k.Errorf("%s: the first lease's context ended %v after the second holder began", fault, ended.Sub(g.at))
				}
				k.ended(l, k.times.prompt, locker.ErrLost)

				// The network is back, and what was on its way arrives.
				mend()
				time.Sleep(k.times.ttl / 2)
				k.is(fault+": the first holder's Unlock, when the network is back (for new connections at least: one that is dead must not cost a call for each that there was)",
					k.tryUnlock(l), locker.ErrTaken)
				k.valid(next, fault+", mended")
				k.unlock(next)
			})
		}
		all.Wait()
	}),
	lockCase("Loss/Deleted", needs{}, func(k *lockKit) {
		k.bothModes(func(name string, opts ...locker.Option) {
			l := k.take(k.client().Mutex(name, append(opts, locker.TTL(k.times.ttl))...))
			k.direct("DEL", name)
			k.ended(l, k.times.ttl/2, locker.ErrLost, locker.ErrAbsent)
			k.free(name, "after the renewal of a lock that was deleted")
			k.is("Extend of a lease that is lost", l.Extend(k.ctx, k.times.long), locker.ErrLost)
			k.is("Unlock of a lease that is lost", k.tryUnlock(l), locker.ErrAbsent)
			k.free(name, "after Unlock of a lock that was deleted")
		})
	}),
	lockCase("Loss/TakenOver", needs{}, func(k *lockKit) {
		k.bothModes(func(name string, opts ...locker.Option) {
			l := k.take(k.client().Mutex(name, append(opts, locker.TTL(k.times.ttl))...))
			k.direct("SET", name, "somebody", "PX", "600000")
			k.ended(l, k.times.ttl/2, locker.ErrLost, locker.ErrTaken)
			k.is("Unlock of a lease that is lost", k.tryUnlock(l), locker.ErrTaken)
			if v, left := k.value(name), k.left(name); v != "somebody" || left < 10*time.Minute-k.time.bound || left > 10*time.Minute {
				k.Errorf("what took the lock over has become %q with a TTL of %v", v, left)
			}
			k.direct("DEL", name)
		})
	}),
	lockCase("Loss/LateReply", needs{}, func(k *lockKit) {
		// The reply to a renewal takes long. The deadline counts from the sending,
		// because the server counts from then or a little later. In a bubble the delay
		// is longer than the margin by which a deadline is early, so that a deadline
		// that counts from the reply, or from a later renewal, is noticed.
		ttl := 2 * k.times.ttl
		late := min(ttl/5, k.time.reply*7/10)
		c := k.client()
		k.warm(c)
		name := k.key("lock")
		l := k.take(c.Mutex(name, locker.TTL(ttl)))
		before := l.Deadline()
		unsent := time.Now()
		rule := k.wire.On(wire.Match{Arg: name}, wire.Delay(late))
		if !k.eventually(ttl, func() bool {
			now := time.Now()
			if rule.Applied() == 1 {
				return true
			}
			unsent = now
			return false
		}) {
			k.Fatalf("no renewal was sent within a TTL of %v", ttl)
		}
		sent := time.Now()                                           // or before
		k.wire.On(wire.Match{Arg: name, Times: -1}, wire.CutRequest) // it is the last one
		if !k.eventually(ttl, func() bool { return l.Deadline().After(before) }) {
			k.Fatalf("the deadline did not move with a reply that took %v", late)
		}
		if d := l.Deadline(); d.After(sent.Add(ttl)) {
			k.Errorf("after a late reply the deadline is %v after the sending; the TTL is %v", d.Sub(sent), ttl)
		}
		k.ended(l, 2*ttl, locker.ErrLost)
		k.stillHeld(name, unsent.Add(ttl))
	}),
	lockCase("Loss/ExtendOnlyLengthens", needs{}, func(k *lockKit) {
		k.bothModes(func(name string, opts ...locker.Option) {
			l := k.take(k.client().Mutex(name, append(opts, locker.TTL(k.times.ttl))...))
			time.Sleep(k.times.ttl / 2) // renewed once
			extend := func(ttl time.Duration) {
				if err := l.Extend(k.ctx, ttl); err != nil {
					k.Fatalf("Extend by %v gave %v", ttl, err)
				}
			}
			long := func(when string, d time.Time) {
				if now := l.Deadline(); now.Before(d) {
					k.Errorf("%s the deadline moved back by %v", when, d.Sub(now))
				}
				if left := k.left(name); left < k.times.long-k.time.bound || left > k.times.long {
					k.Errorf("%s the server has a TTL of %v; want about %v", when, left, k.times.long)
				}
			}
			extend(k.times.long)
			d := l.Deadline()
			if d.Before(time.Now().Add(k.times.long * 9 / 10)) {
				k.Errorf("after Extend by %v the deadline is in %v", k.times.long, time.Until(d))
			}
			long("after a long Extend", d)
			extend(locker.MinTTL)
			long("after a short Extend that followed a long one", d)
			time.Sleep(k.times.ttl)
			long("after renewals that followed a long Extend", d)
			for _, r := range k.wire.Requests(wire.Match{Arg: name}) {
				k.direct(r.Args...)
			}
			long("after late duplicates of earlier requests", d)
			k.unlock(l)
		})
	}),
}
