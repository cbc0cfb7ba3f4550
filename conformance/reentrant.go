package conformance

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/golocker/golocker/locker"
)

// reentrantCase makes a case of the level "Reentrant": an owner takes a lock again
// that it holds.
func reentrantCase(name string, run func(*lockKit)) testCase {
	return levelCase("Reentrant/"+name, needs{}, run)
}

// reentrantCases is that level.
var reentrantCases = slices.Concat(
	reentrantHoldCases,
	reentrantNestedCases,
	reentrantRequestCases,
)

// reentrant returns the options of a reentrant, fenced lock of this owner.
func reentrant(o locker.Owner, ttl time.Duration, more ...locker.Option) []locker.Option {
	return append([]locker.Option{locker.Reentrant(), locker.Fenced(), locker.As(o), locker.TTL(ttl)}, more...)
}

// reentrantHoldCases: each Lock makes a hold of its own, and the lock is free when
// the last one is over.
var reentrantHoldCases = []testCase{
	reentrantCase("SameOwner", func(k *lockKit) {
		// On one client the owner gets the lock again without a request. For others
		// it is locked.
		c := k.client()
		k.warm(c, locker.Reentrant())
		name, owner := k.key("lock"), locker.NewOwner()
		m := c.Mutex(name, reentrant(owner, k.times.long)...)
		byCtx := c.Mutex(name, locker.Reentrant(), locker.Fenced(), locker.TTL(k.times.long))
		outer := k.take(m)
		n := k.sent(name)
		leases := []*locker.Lease{k.take(m)}
		for _, ctx := range []context.Context{outer.Context(), locker.WithOwner(k.ctx, owner)} {
			l, err := byCtx.TryLock(ctx)
			if err != nil {
				k.Fatalf("TryLock under a context that tells the owner gave %v", err)
			}
			leases = append(leases, l)
		}
		for _, l := range leases {
			if l.Token() != outer.Token() || l.Owner() != owner {
				k.Errorf("the re-entry has the token %d and the owner %v; want %d and %v", l.Token(), l.Owner(), outer.Token(), owner)
			}
		}
		for what, other := range map[string]*locker.Client{"this client": c, "another client": k.undisturbed()} {
			_, err := other.Mutex(name, reentrant(locker.NewOwner(), k.times.long)...).TryLock(k.ctx)
			locked, ok := errors.AsType[*locker.LockedError](err)
			if !ok || locked.Holder.Owner != owner.String() || locked.Holder.Mode != locker.Exclusive || locked.Holder.Token != outer.Token() {
				k.Errorf("TryLock of another owner on %s gave %v; want a *LockedError that names the owner", what, err)
			}
			if what == "this client" {
				n++ // the client had to ask
			}
		}
		k.unlock(outer)
		k.ended(outer, k.times.prompt, locker.ErrReleased)
		for _, l := range leases {
			k.valid(l, "one hold given up, others left")
		}
		for _, l := range leases[1:] {
			k.unlock(l)
		}
		if got := k.sent(name); got != n {
			k.Errorf("re-entry and its Unlock sent %d commands; want none while a hold is left", got-n)
		}
		k.valid(leases[0], "the last hold")
		k.unlock(leases[0])
		if got := k.sent(name); got != n+1 {
			k.Errorf("the last Unlock sent %d commands; want 1", got-n)
		}
		k.free(name, "after the last Unlock")
	}),
	reentrantCase("OtherProcess", func(k *lockKit) {
		// An owner is the same in every process that gives it the same name. It does
		// not wait behind those who wait for it.
		name, job := k.key("lock"), locker.NamedOwner("job-17")
		here := k.take(k.client().Mutex(name, reentrant(job, k.times.long)...))
		waiting := k.later(k.ctx, k.client().Mutex(name, reentrant(locker.NewOwner(), k.times.long)...))
		k.waiters(name, 1)
		there, err := k.client().Mutex(name, reentrant(job, k.times.long)...).TryLock(k.ctx)
		if err != nil {
			k.Fatalf("TryLock of the owner in another process gave %v", err)
		}
		if there.Token() <= here.Token() {
			k.Errorf("re-entry from another process has the token %d; the lease before has %d", there.Token(), here.Token())
		}
		if h := k.inspect(name).Holders; len(h) != 1 || h[0].Holds != 2 || h[0].Owner != "job-17" {
			k.Errorf("the holders are %+v; want one owner with two holds", h)
		}
		k.unlock(here)
		k.valid(there, "after Unlock in the other process")
		k.waits(waiting, "another owner, while a hold is left,")
		k.unlock(there)
		k.unlock(k.granted(waiting, k.times.poll+k.times.grant, "the other owner"))
		k.free(name, "after the last Unlock")
	}),
	reentrantCase("FreeAfterLastHold", func(k *lockKit) {
		// The lock is free after the last hold, in whatever order the holds are given up,
		// and however often.
		a, b := k.client(), k.client()
		for _, order := range [][]int{{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}} {
			name, owner := k.key("lock"), locker.NamedOwner("o")
			var held []*locker.Lease
			for _, c := range []*locker.Client{a, b, a, b} {
				held = append(held, k.take(c.Mutex(name, reentrant(owner, k.times.long)...)))
			}
			for n, i := range order {
				for range 2 {
					k.unlock(held[i])
				}
				for _, j := range order[n+1:] {
					k.valid(held[j], "while holds are left")
				}
				_, err := a.Mutex(name, locker.Reentrant()).TryLock(k.ctx)
				if last := n == len(order)-1; last != (err == nil) {
					k.Errorf("with %d of %d holds left TryLock of another owner gave %v", len(order)-1-n, len(order), err)
				}
			}
			k.direct("DEL", name)
		}
	}),
	reentrantCase("OwnDeadlines", func(k *lockKit) {
		// A hold that is not renewed runs out, whatever other holds its owner has,
		// and those do not run out with it.
		name, owner := k.key("lock"), locker.NamedOwner("o")
		long := k.take(k.client(locker.Label("long")).Mutex(name, reentrant(owner, k.times.long)...))
		deadline := long.Deadline()
		brief := k.client(locker.Label("brief")).Mutex(name, reentrant(owner, k.times.ttl, locker.NoRenewal())...)
		begun := time.Now()
		lost := k.take(brief)
		if d := lost.Deadline(); d.After(begun.Add(k.times.ttl)) {
			k.Errorf("a hold of %v beside a long one has its deadline in %v", k.times.ttl, time.Until(d))
		}
		k.ended(lost, k.times.ttl, locker.ErrLost)
		time.Sleep(time.Until(begun.Add(k.times.ttl + k.times.late)))
		if d := long.Deadline(); d.Before(deadline) {
			k.Errorf("a short hold has moved the deadline of a long one back by %v", deadline.Sub(d))
		}
		k.valid(long, "after a short hold has run out")
		if h := k.inspect(name).Holders; len(h) != 1 || h[0].Label != "long" || h[0].Holds != 1 {
			k.Errorf("after a short hold has run out the holders are %+v", h)
		}
		begun = time.Now()
		k.take(brief) // and its process dies
		k.unlock(long)
		next := k.later(k.ctx, k.client().Mutex(name, reentrant(locker.NewOwner(), k.times.long)...))
		l := k.granted(next, k.times.ttl+k.times.poll+k.times.grant, "another owner, after a short hold that nobody gave up,")
		if early := begun.Add(k.times.ttl).Sub(next.at); early > 10*time.Millisecond {
			k.Errorf("another owner was granted the lock %v before the last hold ran out", early)
		}
		k.unlock(l)
	}),
	reentrantCase("NotAHolder", func(k *lockKit) {
		// Unlock of a hold that has run out says so, also while its owner has
		// others, and does not touch them.
		name, owner := k.key("lock"), locker.NamedOwner("o")
		brief := k.client().Mutex(name, reentrant(owner, k.times.ttl, locker.NoRenewal())...)
		lost := k.take(brief)
		long := k.take(k.client().Mutex(name, reentrant(owner, k.times.long)...))
		k.ended(lost, k.times.ttl, locker.ErrLost)
		time.Sleep(k.times.ttl / 4)
		err := k.tryUnlock(lost)
		k.is("Unlock of a hold that has run out while its owner has another", err, locker.ErrTaken)
		k.valid(long, "after Unlock of a hold that has run out")
		k.unlock(long)
		lost = k.take(brief)
		k.ended(lost, k.times.ttl, locker.ErrLost)
		time.Sleep(k.times.ttl / 4)
		k.is("Unlock of the last hold, which has run out", k.tryUnlock(lost), locker.ErrAbsent)
		k.free(name, "after the last hold has run out")
	}),
	reentrantCase("Loss", func(k *lockKit) {
		// All holds are renewed together and lost together, in time.
		name, w, owner := k.key("lock"), k.newWire(), locker.NewOwner()
		m := k.clientVia(w).Mutex(name, reentrant(owner, k.times.ttl)...)
		held := []*locker.Lease{k.take(m), k.take(m)}
		g := k.later(k.ctx, k.undisturbed().Mutex(name, reentrant(locker.NewOwner(), k.times.long)...))
		time.Sleep(2 * k.times.ttl)
		for _, l := range held {
			k.valid(l, "renewed")
		}
		w.Partition()
		ends := k.watch(held...)
		next := k.granted(g, 3*k.times.ttl+k.times.poll, "the next owner, the first being cut off,")
		ends.before(g.at)
		w.KillAll()
		w.Heal()
		for _, l := range held {
			k.ended(l, k.times.prompt, locker.ErrLost)
			k.is("Unlock of a lease that is lost", k.tryUnlock(l), locker.ErrTaken)
		}
		k.valid(next, "after the former owner's Unlock")
		k.unlock(next)
	}),
}
