package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// lockQueueCases: waiters get the lock in the order in which they came, whichever
// clients they belong to.
var lockQueueCases = []testCase{
	lockCase("Queue/Order", needs{subscriber: true}, func(k *lockKit) {
		k.modes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long), k.patient())
			clients := []*locker.Client{k.client(), k.client(), k.client()}
			held := k.take(clients[0].Mutex(name, opts...))
			var waiting []*grant
			for i := range 6 {
				waiting = append(waiting, k.later(k.ctx, clients[i%3].Mutex(name, opts...)))
				k.waiters(name, i+1)
			}
			for i, g := range waiting {
				token := held.Token()
				k.unlock(held)
				held = k.granted(g, k.times.grant, fmt.Sprintf("waiter number %d of 6, whose turn it is,", i+1))
				k.valid(held, "granted in turn")
				if token > 0 && held.Token() <= token {
					k.Errorf("a waiter was granted the token %d after %d", held.Token(), token)
				}
			}
			k.unlock(held)
			k.free(name, "after the last waiter's Unlock")
		})
	}),
	lockCase("Queue/PollersKeepTheirPlace", needs{}, func(k *lockKit) {
		// Through a Conn without any optional interface waiters find out by asking.
		// A waiter that asks seldom keeps its place before one that asks often, for
		// longer than a waiter that has died would.
		k.bothModes(func(name string, opts ...locker.Option) {
			seldom, often := k.clientOn(plainConnector{k.connector()}), k.clientOn(plainConnector{k.connector()})
			held := k.take(k.undisturbed().Mutex(name, append(opts, locker.TTL(k.times.long))...))
			first := k.later(k.ctx, seldom.Mutex(name, append(opts, locker.Retry(locker.Constant(k.times.poll/4)))...))
			k.waiters(name, 1)
			second := k.later(k.ctx, often.Mutex(name, append(opts, locker.Retry(locker.Constant(k.times.poll/50)))...))
			k.waiters(name, 2)
			time.Sleep(k.times.place)
			k.unlock(held)
			l := k.granted(first, k.times.poll/4+k.times.grant, "the waiter that came first and asks seldom")
			k.waits(second, "the waiter that came second and asks often")
			k.unlock(l)
			k.unlock(k.granted(second, k.times.grant, "the second waiter"))
		})
	}),
	lockCase("Queue/Newcomer", needs{subscriber: true}, func(k *lockKit) {
		// A newcomer does not get the lock before those who wait already, not even at
		// the moment at which it changes hands and they can ask for nothing.
		k.modes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			newcomer := k.client().Mutex(name, opts...)
			tried := func() {
				if _, err := newcomer.TryLock(k.ctx); !errors.Is(err, locker.ErrLocked) {
					k.Fatalf("TryLock of a newcomer, while others wait, gave %v", err)
				}
			}
			w := k.newWire()
			c := k.clientVia(w)
			held := k.take(k.undisturbed().Mutex(name, opts...))
			var waiting []*grant
			for i := range 3 {
				waiting = append(waiting, k.later(k.ctx, c.Mutex(name, append(opts, k.patient())...)))
				k.waiters(name, i+1)
			}
			released := 0
			for _, g := range waiting[:2] {
				rule := w.On(wire.Match{Arg: name, Skip: released, Times: -1}, wire.HoldRequest)
				k.unlock(held)
				released = 1 // by c itself, from now on
				tried()
				held = k.granted(g, k.times.grant, "a waiter whose turn it is")
				tried()
				rule.Remove()
				rule.Release()
			}
			if held.Token() == 0 {
				// A lock without fencing is taken by a bare SET NX, which knows of no
				// queue; that may happen where nobody passed the lock on.
				k.unlock(held)
			} else {
				// The record was deleted. The newcomer finds out, and the waiter has the
				// benefit.
				k.direct("DEL", name)
				tried()
			}
			k.unlock(k.granted(waiting[2], k.times.grant, "the last waiter"))
		})
	}),
	lockCase("Queue/DeadWaiter", needs{}, func(k *lockKit) {
		// The first in turn has no network any more, and its connections do not
		// show it. That costs those behind it the rest of its reservation and not a
		// whole lease.
		k.bothModes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			held := k.take(k.undisturbed().Mutex(name, opts...))
			w := k.newWire()
			ctx, cancel := context.WithCancel(k.ctx)
			defer cancel()
			dead := k.later(ctx, k.clientVia(w).Mutex(name, opts...))
			k.waiters(name, 1)
			next := k.later(k.ctx, k.client().Mutex(name, opts...))
			k.waiters(name, 2)
			w.Partition()
			k.unlock(held)
			l := k.granted(next, k.times.place+k.times.poll+k.times.grant, "the second waiter, the first being dead,")
			cancel()
			k.refused(dead, k.times.prompt, "the waiter without network, cancelled,")
			w.KillAll()
			w.Heal()
			k.valid(l, "after the dead waiter's turn")
			time.Sleep(k.time.short)
			k.valid(l, "after the dead waiter came back and gave up")
			k.unlock(l)
		})
	}),
	lockCase("Queue/PassedOver", needs{subscriber: true, describer: true}, func(k *lockKit) {
		// The first in turn hears nothing just now, and the server knows that: the second
		// gets the lock at once. The first keeps its place meanwhile.
		name := k.key("lock")
		opts := []locker.Option{locker.TTL(k.times.long), k.patient()}
		held := k.take(k.undisturbed().Mutex(name, opts...))
		w := k.newWire()
		first := k.later(k.ctx, k.clientVia(w).Mutex(name, opts...))
		k.waiters(name, 1)
		var others []*grant
		for i := range 2 {
			others = append(others, k.later(k.ctx, k.client().Mutex(name, opts...)))
			k.waiters(name, i+2)
		}
		w.Refuse(true)
		w.KillAll()
		time.Sleep(k.time.short)
		k.unlock(held)
		held = k.granted(others[0], k.times.grant, "the second, while the first cannot hear,")
		asked := w.Count(wire.Match{Arg: name})
		w.Refuse(false)
		if !k.eventually(k.time.settle, func() bool { return w.Count(wire.Match{Arg: name}) > asked }) {
			k.Fatalf("a waiter that could not listen for a while has not asked since")
		}
		k.unlock(held)
		k.unlock(k.granted(first, k.times.grant, "the first, which listens again,"))
		k.unlock(k.granted(others[1], k.times.grant, "the third"))
	}),
}

// waits checks that a Lock in the background has not returned and does not for a
// while.
func (k *lockKit) waits(g *grant, what string) {
	select {
	case <-g.done:
		k.Fatalf("%s must wait; its Lock gave (%v, %v)", what, g.lease, g.err)
	case <-time.After(k.time.pause):
	}
}
