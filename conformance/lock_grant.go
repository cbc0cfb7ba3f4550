package conformance

import (
	"context"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockGrantCases: a holder that gives a lock up grants it to the first in turn, and what
// may become of that grant on its way.
var lockGrantCases = []testCase{
	lockCase("Queue/HandOffCost", needs{subscriber: true}, func(k *lockKit) {
		// One command of the holder hands the lock on, however many wait, and the
		// next holder sends none.
		k.modes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long), k.patient())
			holder, c := k.newWire(), k.client()
			k.listen(c)
			giver := k.clientVia(holder)
			k.warm(giver)
			for _, waiting := range []int{1, 12} {
				name := fmt.Sprint(name, waiting)
				held := k.take(giver.Mutex(name, opts...))
				var grants []*grant
				for i := range waiting {
					grants = append(grants, k.later(k.ctx, c.Mutex(name, opts...)))
					k.waiters(name, i+1)
				}
				theirs, ours := k.sent(name), holder.Count(wire.Match{Arg: name})
				k.unlock(held)
				held = k.granted(grants[0], k.times.grant, "the first waiter")
				if n := k.sent(name) - theirs; n != 0 {
					k.Errorf("%d commands were sent by %d waiters while the lock was handed on; want none", n, waiting)
				}
				if n := holder.Count(wire.Match{Arg: name}) - ours; n != 1 {
					k.Errorf("the holder sent %d commands to hand the lock on to one of %d; want 1", n, waiting)
				}
				k.valid(held, "handed on")
				for _, g := range grants[1:] {
					k.unlock(held)
					held = k.granted(g, k.times.grant, "a further waiter")
				}
				k.unlock(held)
			}
		})
	}),
	lockCase("Queue/GrantThenCancel", needs{subscriber: true}, func(k *lockKit) {
		// The first waiter has been granted the lock, and is cancelled before it
		// learns of the grant, because it hardly ever asks, or because the network
		// holds the message up. The lock goes on to the second.
		for what, connector := range map[string]func(w *wire.Wire) driver.Connector{
			"a waiter that asks":       func(w *wire.Wire) driver.Connector { return plainConnector{k.connector(k.via(w))} },
			"a waiter that is cut off": func(w *wire.Wire) driver.Connector { return k.connector(k.via(w)) },
		} {
			name := k.key(what)
			w := k.newWire()
			held := k.take(k.undisturbed().Mutex(name, locker.TTL(k.times.long)))
			ctx, cancel := context.WithCancel(k.ctx)
			defer cancel()
			first := k.later(ctx, k.clientOn(connector(w)).Mutex(name, k.patient()))
			k.waiters(name, 1)
			second := k.later(k.ctx, k.client().Mutex(name, k.patient()))
			k.waiters(name, 2)
			w.Partition()
			k.unlock(held)
			k.waiters(name, 1)
			cancel()
			k.refused(first, k.times.prompt, "the first waiter, which was cancelled,")
			w.Heal()
			k.unlock(k.granted(second, k.time.settle, "the second after "+what))
			k.soonFree(name, "after Unlock")
		}
	}),
	lockCase("Queue/LostGrantMessage", needs{subscriber: true}, func(k *lockKit) {
		// The lock was granted and the message did not arrive. The waiter finds
		// out by its poll, and holds what it was granted.
		k.bothModes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			lost := newMailbox()
			held := k.take(k.undisturbed().Mutex(name, opts...))
			g := k.waiterBy(lost, name, opts...)
			k.unlock(held)
			l := k.granted(g, k.times.poll+k.times.grant, "a waiter whose message was lost")
			if n := lost.count(); n != 1 {
				k.Errorf("the waiter was sent %d messages; want 1", n)
			}
			k.valid(l, "after a lost message")
			k.unlock(l)
			k.free(name, "after Unlock")
		})
	}),
	lockCase("Queue/OldGrantIgnored", needs{subscriber: true}, func(k *lockKit) {
		// The message of a grant is late. Meanwhile the grant is void, and the
		// waiter is in the queue again. It must not believe the message.
		k.bothModes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			late := newMailbox()
			held := k.take(k.undisturbed().Mutex(name, opts...))
			g := k.waiterBy(late, name, opts...)
			k.unlock(held)
			k.direct("SET", name, "somebody", "PX", "600000")
			k.waiters(name, 1)
			late.deliver()
			k.waits(g, "who hears of a grant that is void")
			if v := k.value(name); v != "somebody" {
				k.Errorf("the message of a void grant has changed the record to %q", v)
			}
			k.direct("DEL", name)
			l := k.granted(g, k.times.poll+k.times.grant, "the waiter")
			k.valid(l, "after the message of a void grant")
			k.unlock(l)
		})
	}),
}

// waiterBy makes a client wait for the lock. All messages to that client, from the first on, go into
// the mailbox: a waiter that does not listen yet is granted a lock without a message.
func (k *lockKit) waiterBy(box *mailbox, name string, opts ...locker.Option) *grant {
	g := k.later(k.ctx, k.clientOn(mailConnector{k.connector(), box}).Mutex(name, opts...))
	k.await(box.listens, k.time.bound, "a waiter does not listen")
	k.waiters(name, 1)
	return g
}

// listen makes c subscribe: from then on its waiters are told at once.
func (k *lockKit) listen(c *locker.Client) {
	name := k.key("listen")
	held := k.take(k.undisturbed().Mutex(name, locker.TTL(k.times.long)))
	g := k.later(k.ctx, c.Mutex(name, k.patient()))
	k.waiters(name, 1)
	k.unlock(held)
	k.unlock(k.granted(g, k.time.bound, "the first waiter of a client"))
	time.Sleep(k.time.short / 6)
}
