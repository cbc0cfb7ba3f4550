package conformance

import (
	"fmt"
	"slices"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// reentrantRequestCases: a request about a hold that is lost, late, doubled or given
// up, and a hold that goes to another process.
var reentrantRequestCases = []testCase{
	reentrantCase("LostReply", func(k *lockKit) {
		// However often a hold was asked for, there is one hold.
		job := locker.NamedOwner("job")
		for i, f := range []fault{cutReply, halfReply, cutRequest, silence} {
			c := k.client(locker.AttemptTimeout(2 * k.time.reply))
			k.warm(c, locker.Reentrant())
			name := k.key(fmt.Sprint("lock", i))
			outer := k.take(k.undisturbed().Mutex(name, reentrant(job, k.times.long)...))
			rule := k.wire.On(wire.Match{Arg: name}, f.action)
			l, err := c.Mutex(name, reentrant(job, k.times.long)...).TryLock(k.ctx)
			if err != nil || rule.Applied() != 1 {
				k.Fatalf("%s, which happened %d times: TryLock of the owner gave %v%s", f.name, rule.Applied(), err, f.hint)
			}
			k.holds(name, 2, "after a lost reply to a re-entry")
			k.valid(l, "after a lost reply")
			if f != silence { // Unlock does not wait for so long
				k.wire.On(wire.Match{Arg: name}, f.action)
			}
			k.unlock(l)
			k.holds(name, 1, "after a lost reply to Unlock")
			k.valid(outer, "after Unlock of the inner hold")
			k.unlock(outer)
			k.free(name, "after the last Unlock")
		}
	}),
	reentrantCase("Duplicated", func(k *lockKit) {
		// Every request is applied twice at once, and a third time when all is over.
		job := locker.NamedOwner("job")
		c := k.client()
		k.warm(c, locker.Reentrant())
		name := k.key("lock")
		outer := k.take(k.undisturbed().Mutex(name, reentrant(job, k.times.long)...))
		rule := k.wire.On(wire.Match{Arg: name, Times: -1}, wire.Duplicate)
		inner := k.take(c.Mutex(name, reentrant(job, k.times.ttl)...))
		k.holds(name, 2, "after a doubled re-entry")
		time.Sleep(k.times.ttl)
		k.valid(inner, "renewed by doubled requests")
		k.holds(name, 2, "after doubled renewals")
		k.unlock(inner)
		k.holds(name, 1, "after a doubled release")
		rule.Remove()
		k.lateCopies(name, func() { k.holds(name, 1, "after a late copy, the owner's other hold being left") })
		k.valid(outer, "after late copies")
		k.unlock(outer)
		k.lateCopies(name, func() { k.free(name, "after a late copy, all being over") })
		next := k.take(k.undisturbed().Mutex(name, reentrant(locker.NewOwner(), k.times.long)...))
		k.lateCopies(name, func() { k.holds(name, 1, "after a late copy, the next owner holding the lock") })
		k.valid(next, "after late copies of another owner's requests")
		k.unlock(next)
		k.free(name, "after Unlock")
	}),
	reentrantCase("GivenUp", func(k *lockKit) {
		// The reply never comes, and the caller gives up. The caller's hold is ended, and its
		// owner's other hold is not. A request that arrives later takes nothing.
		job := locker.NamedOwner("job")
		for what, action := range map[string]wire.Action{"silence": wire.Silence, "late request": wire.HoldRequest} {
			c := k.client()
			k.warm(c, locker.Reentrant())
			name := k.key(what)
			outer := k.take(k.undisturbed().Mutex(name, reentrant(job, k.times.long)...))
			rule := k.wire.On(wire.Match{Arg: name}, action)
			ctx, cancel := k.within(k.time.short)
			defer cancel()
			g := k.later(ctx, c.Mutex(name, reentrant(job, k.times.long, locker.AttemptTimeout(k.time.bound))...))
			k.refused(g, k.time.bound, "Lock whose reply never comes")
			k.await(rule.Happened(), k.time.bound, "the request has not passed the wire")
			// The giving up arrives before the request on another connection, and after it on the same one.
			k.eventually(k.time.short, func() bool {
				return slices.ContainsFunc(k.wire.Requests(wire.Match{Arg: name}), func(r wire.Request) bool { return r.Replied && r.Passed })
			})
			rule.Release()
			if !k.eventually(k.time.settle, func() bool { return k.wire.Requests(wire.Match{Arg: name})[0].Forwarded > 0 }) {
				k.Fatalf("the late request was not forwarded: the suite is at fault")
			}
			time.Sleep(k.time.short)
			k.eventually(k.time.settle, func() bool { return k.countHolds(name) == 1 })
			k.holds(name, 1, what+", its caller having given up")
			k.valid(outer, "after a re-entry that was given up")
			k.unlock(outer)
			k.free(name, "after Unlock")
		}
	}),
	reentrantCase("DetachAttach", func(k *lockKit) {
		// A lease that was re-entered is detached alone: its owner keeps the other
		// leases, and has a further one where the detached lease is taken up.
		name, job := k.key("lock"), locker.NamedOwner("job")
		m := k.undisturbed().Mutex(name, reentrant(job, k.times.ttl)...)
		outer, inner := k.take(m), k.take(m)
		id, err := inner.Detach(k.ctx, k.times.long)
		if err != nil {
			k.Fatalf("Detach of a lease that shares its hold gave %v", err)
		}
		k.ended(inner, k.times.prompt, locker.ErrReleased)
		k.valid(outer, "after another lease of its hold was detached")
		k.holds(name, 2, "after Detach")
		k.unlock(outer)
		time.Sleep(k.times.ttl * 3 / 2)
		k.holds(name, 1, "detached, and one TTL later,")
		_, err = m.Attach(k.ctx, id[1:]+"0")
		k.is("Attach under another id", err, locker.ErrTaken)

		b := k.client()
		k.warm(b, locker.Reentrant())
		taken := k.attach(b.Mutex(name, locker.Reentrant(), locker.Fenced(), locker.TTL(k.times.ttl)), name, id)
		if taken.Owner() != job || taken.Token() <= outer.Token() {
			k.Errorf("taken up, the lease has the owner %v and the token %d; want %v and more than %d", taken.Owner(), taken.Token(), job, outer.Token())
		}
		k.holds(name, 1, "after Attach")
		_, err = m.Attach(k.ctx, id)
		k.is("a second Attach", err, locker.ErrTaken)
		time.Sleep(k.times.ttl)
		k.valid(taken, "after taking up")
		again := k.take(b.Mutex(name, reentrant(job, k.times.ttl)...))
		k.unlock(taken)
		k.valid(again, "a re-entry to a lease that was taken up")
		k.unlock(again)
		k.free(name, "after Unlock")
		k.settled()
		_, err = m.Attach(k.ctx, id)
		k.is("Attach to a lock that is free", err, locker.ErrAbsent)
	}),
	reentrantCase("DetachAttach/GivenUp", func(k *lockKit) { k.attachGivenUp(locker.Reentrant()) }),
	reentrantCase("TTL/EveryKey", func(k *lockKit) { k.everyKeyHasTTL(locker.Reentrant()) }),
}

// countHolds returns how many holds of a lock the server knows.
func (k *lockKit) countHolds(name string) int {
	n := 0
	for _, h := range k.inspect(name).Holders {
		n += h.Holds
	}
	return n
}

// holds checks how many holds of a lock the server knows.
func (k *lockKit) holds(name string, want int, when string) {
	if n := k.countHolds(name); n != want {
		k.Errorf("%s: the server knows %d holds; want %d", when, n, want)
	}
}

// lateCopies executes every request about a lock that has passed k.wire once more,
// and calls check after each.
func (k *lockKit) lateCopies(name string, check func()) {
	for _, r := range k.wire.Requests(wire.Match{Arg: name}) {
		k.direct(r.Args...)
		check()
	}
}
