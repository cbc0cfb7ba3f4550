package conformance

import (
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// readWriteRequestCases: what goes over the wire for a read-write lock, and what may
// become of it.
var readWriteRequestCases = []testCase{
	readWriteCase("TwoCommands", needs{}, func(k *lockKit) {
		c := k.client()
		k.warm(c, locker.ForReading())
		for what, m := range map[string]*locker.Mutex{"reading": k.reading(c, k.key("r")), "writing": k.writing(c, k.key("w"))} {
			sent := k.wrote(func() { k.unlock(k.take(m)) })
			if want := []string{"EVALSHA", "EVALSHA"}; fmt.Sprint(sent) != fmt.Sprint(want) {
				k.Errorf("an uncontended Lock and Unlock for %s wrote %v; want %v", what, sent, want)
			}
		}
	}),
	readWriteCase("LostReply", needs{}, func(k *lockKit) {
		// The reply to a Lock is lost: there is one hold. Or the reply to an Unlock: there is none.
		for i, broken := range []fault{cutReply, halfReply, cutRequest} {
			c := k.client()
			k.warm(c, locker.ForReading())
			name := k.key(fmt.Sprint("lock", i))
			lose := func(f func()) {
				rule := k.wire.On(wire.Match{Arg: name}, broken.action)
				f()
				if rule.Applied() != 1 {
					k.Errorf("%s: no command about the lock was sent", broken.name)
				}
			}
			other := k.take(k.reading(k.undisturbed(), name))
			var r, w *locker.Lease
			lose(func() { r = k.take(k.reading(c, name)) })
			k.holds(name, 2, "after a lost reply to a reader")
			k.valid(r, "after a lost reply")
			k.unlock(other)
			lose(func() {
				var err error
				if w, err = r.TryUpgrade(k.ctx); err != nil {
					k.Fatalf("%s: TryUpgrade of the only reader gave %v", broken.name, err)
				}
			})
			k.holds(name, 2, "after a lost reply to Upgrade")
			k.valid(w, "after a lost reply")
			if h := k.inspect(name).Holders; w.Token() == 0 || h[0].Token != w.Token() && h[1].Token != w.Token() {
				k.Errorf("the writer has the token %d, the server says %+v", w.Token(), h)
			}
			reader := k.later(k.ctx, k.reading(k.undisturbed(), name))
			k.waiters(name, 1)
			lose(func() { k.unlock(w) })
			k.unlock(k.granted(reader, k.times.poll+k.times.grant, "a reader"))
			k.holds(name, 1, "after a lost reply to the writer's Unlock")
			lose(func() { k.unlock(r) })
			k.free(name, "after a lost reply to the last Unlock")
		}
	}),
	readWriteCase("Duplicated", needs{}, func(k *lockKit) {
		// Every request is applied twice at once, and a third time when all is over.
		c := k.client()
		k.warm(c, locker.ForReading())
		name := k.key("lock")
		other := k.take(k.reading(k.undisturbed(), name))
		rule := k.wire.On(wire.Match{Arg: name, Times: -1}, wire.Duplicate)
		r := k.take(k.reading(c, name, locker.TTL(k.times.ttl)))
		k.holds(name, 2, "after a doubled request of a reader")
		time.Sleep(k.times.ttl)
		k.valid(r, "renewed by doubled requests")
		upgrade := k.upgrade(k.ctx, r)
		k.waiters(name, 1)
		k.unlock(other)
		w := k.granted(upgrade, k.times.poll+k.times.grant, "Upgrade")
		k.holds(name, 2, "after a doubled Upgrade")
		if h := k.inspect(name).Holders; len(h) != 2 || h[0].Token != w.Token() && h[1].Token != w.Token() {
			k.Errorf("the writer has the token %d, the server says %+v", w.Token(), h)
		}
		k.unlock(w)
		k.holds(name, 1, "after the writer's doubled release")
		k.unlock(r)
		k.free(name, "after the reader's doubled release")
		rule.Remove()
		k.lateCopies(name, func() { k.free(name, "after a late copy, all being over") })
		reader := k.take(k.reading(k.undisturbed(), name))
		k.lateCopies(name, func() { k.holds(name, 1, "after a late copy, another reader holding the lock") })
		k.valid(reader, "after late copies of another reader's requests")
		k.unlock(reader)
		k.free(name, "after Unlock")
	}),
	readWriteCase("DetachAttach", needs{}, func(k *lockKit) {
		// A reader's lease, or a writer's, is taken up in the mode in which it was
		// left; other readers are not affected.
		for what, sides := range map[string][2]func(*locker.Client, string, ...locker.Option) *locker.Mutex{
			"reading": {k.reading, k.writing}, "writing": {k.writing, k.reading},
		} {
			name := k.key(what)
			a, b := k.undisturbed(), k.client()
			k.warm(b, locker.ForReading())
			l := k.take(sides[0](a, name))
			want := 1
			var other *locker.Lease
			if l.Mode() == locker.Reading {
				other, want = k.take(k.reading(a, name)), 2
			}
			id, err := l.Detach(k.ctx, k.times.long)
			if err != nil {
				k.Fatalf("Detach gave %v", err)
			}
			_, err = sides[1](b, name).Attach(k.ctx, id)
			k.is("Attach in the other mode", err, locker.ErrTaken)
			taken := k.attach(sides[0](b, name), name, id)
			if taken.Mode() != l.Mode() || taken.Owner() != l.Owner() || taken.Token() < l.Token() {
				k.Errorf("%s, the lease taken up is %s by %v with the token %d; want %v and at least %d",
					what, taken.Mode(), taken.Owner(), taken.Token(), l.Owner(), l.Token())
			}
			k.holds(name, want, "after Attach")
			k.valid(taken, "after Attach")
			_, err = sides[0](a, name).Attach(k.ctx, id)
			k.is("a second Attach", err, locker.ErrTaken)
			if other != nil {
				k.valid(other, "after another reader's lease was taken up")
				k.unlock(other)
			}
			k.isLocked(k.writing(a, name), l.Mode(), "after Attach")
			k.unlock(taken)
			k.free(name, "after Unlock")
			k.settled()
			_, err = sides[0](a, name).Attach(k.ctx, id)
			k.is("Attach to a lock that is free", err, locker.ErrAbsent)
		}
	}),
	readWriteCase("DetachAttach/GivenUp", needs{}, func(k *lockKit) { k.attachGivenUp(locker.ForReading()) }),
	readWriteCase("TTL/EveryKey", needs{}, func(k *lockKit) { k.everyKeyHasTTL(locker.ForWriting()) }),
}
