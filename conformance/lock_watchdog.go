package conformance

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockWatchdogCases: leases are renewed as long as they are held, no longer, and
// at little cost.
var lockWatchdogCases = []testCase{
	lockCase("Watchdog/Renews", needs{}, func(k *lockKit) {
		// Also after the ctx of Lock has ended.
		k.bothModes(func(name string, opts ...locker.Option) {
			ctx, cancel := context.WithCancel(k.ctx)
			l, err := k.client().Mutex(name, append(opts, locker.TTL(k.times.ttl))...).Lock(ctx)
			cancel()
			if err != nil {
				k.Fatalf("Lock gave %v", err)
			}
			other := k.undisturbed().Mutex(name, opts...)
			for range 4 {
				d := l.Deadline()
				time.Sleep(k.times.ttl / 2)
				if !l.Deadline().After(d) {
					k.Errorf("the deadline has not moved in half the TTL")
				}
				k.valid(l, "renewed")
				if _, err := other.TryLock(k.ctx); !errors.Is(err, locker.ErrLocked) {
					k.Errorf("TryLock of another client gave %v while the lock is held", err)
				}
			}
			k.unlock(l)
		})
	}),
	lockCase("Watchdog/TransientErrors", needs{}, func(k *lockKit) {
		// A renewal that fails is no loss: it is repeated until the deadline.
		c := k.client()
		k.warm(c)
		name := k.key("lock")
		l := k.take(c.Mutex(name, locker.TTL(2*k.times.ttl)))
		var rules []*wire.Rule
		for _, fault := range []wire.Action{
			wire.Answer("-LOADING Redis is loading the dataset in memory\r\n"),
			wire.Answer("-READONLY You can't write against a read only replica.\r\n"),
			wire.CutReply,
			wire.Answer("-BUSY Redis is busy running a script.\r\n"),
			wire.Answer("-MISCONF Redis is configured to save RDB snapshots\r\n"),
			wire.CutRequest,
			wire.Answer("-CLUSTERDOWN The cluster is down\r\n"),
		} {
			rules = append(rules, k.wire.On(wire.Match{Arg: name}, fault))
		}
		if !k.eventually(2*k.times.ttl, func() bool { return rules[len(rules)-1].Applied() == 1 }) {
			k.Errorf("after failed renewals the lease's cause is %v; they were not repeated", l.Err())
		}
		time.Sleep(k.times.ttl)
		k.valid(l, "after several renewals failed and later ones succeeded")
		k.unlock(l)
	}),
	lockCase("Watchdog/ExtendUnknown", needs{}, func(k *lockKit) {
		// Extend without a reply says so when its ctx ends. As far as is known, the
		// lease is as long as it was, and it goes on when the network is back.
		c := k.client()
		k.warm(c)
		l := k.take(c.Mutex(k.key("lock"), locker.TTL(2*k.times.ttl)))
		k.wire.Partition()
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		extend := k.background(func() (driver.Value, error) { return nil, l.Extend(ctx, k.times.long) })
		k.wait(extend, k.time.short+k.times.prompt, "Extend in a partition, its ctx ended,")
		k.is("Extend in a partition", extend.err, locker.ErrUnknown)
		k.isNot("Extend in a partition", extend.err, locker.ErrLost)
		if d := time.Until(l.Deadline()); d > 2*k.times.ttl {
			k.Errorf("after Extend without a reply the deadline is in %v", d)
		}
		k.wire.KillAll()
		k.wire.Heal()
		time.Sleep(2 * k.times.ttl)
		k.valid(l, "after a short partition")
		k.unlock(l)
	}),
	lockCase("Watchdog/StopsAfterUnlock", needs{}, func(k *lockKit) {
		c := k.client()
		k.warm(c)
		name := k.key("lock")
		quiet := func(when string) {
			n := k.sent(name)
			time.Sleep(k.times.ttl)
			if n := k.sent(name) - n; n > 0 {
				k.Errorf("%s, %d commands about the lock were sent after Unlock", when, n)
			}
			k.free(name, when)
		}
		l := k.take(c.Mutex(name, locker.TTL(k.times.ttl)))
		time.Sleep(k.times.ttl)
		k.unlock(l)
		quiet("after some renewals")

		// A renewal is in flight: Unlock waits for it, so that nothing of the lease
		// is on its way when it returns.
		l = k.take(c.Mutex(name, locker.TTL(k.times.ttl)))
		rule := k.wire.On(wire.Match{Arg: name}, wire.HoldReply)
		k.await(rule.Happened(), k.times.ttl, "no renewal has reached the server")
		n := k.sent(name)
		unlock := k.background(func() (driver.Value, error) { return nil, l.Unlock(k.ctx) })
		time.Sleep(k.times.ttl / 20)
		if k.sent(name) != n {
			k.Errorf("the release was sent while a renewal was in flight")
		}
		rule.Release()
		k.wait(unlock, k.time.bound, "Unlock")
		if unlock.err != nil {
			k.Errorf("Unlock while a renewal is in flight gave %v", unlock.err)
		}
		quiet("with a renewal in flight")
	}),
	lockCase("Watchdog/Off", needs{}, func(k *lockKit) {
		// Without renewal the lease ends by itself, here before it ends on the server.
		c := k.client()
		k.warm(c)
		name := k.key("lock")
		begun := time.Now()
		l := k.take(c.Mutex(name, locker.TTL(k.times.ttl), locker.NoRenewal()))
		n := k.sent(name)
		k.ended(l, k.times.ttl, locker.ErrLost)
		k.stillHeld(name, begun.Add(k.times.ttl))
		time.Sleep(time.Until(begun.Add(k.times.ttl + k.times.late)))
		k.free(name, "after the TTL without renewal")
		if n := k.sent(name) - n; n > 0 {
			k.Errorf("%d commands were sent about a lease that is not renewed", n)
		}
		k.is("Unlock of a lease that ran out", k.tryUnlock(l), locker.ErrAbsent)
	}),
	lockCase("Watchdog/MaxHold", needs{}, func(k *lockKit) {
		name := k.key("lock")
		hold := k.times.ttl * 3 / 2
		begun := time.Now()
		l := k.take(k.client().Mutex(name, locker.TTL(k.times.ttl), locker.MaxHold(hold)))
		taken := time.Now()
		time.Sleep(k.times.ttl)
		k.valid(l, "before the maximum hold")
		k.ended(l, hold, locker.ErrMaxHold, locker.ErrLost)
		if now := time.Now(); now.Sub(begun) < hold || now.Sub(taken) > hold+k.times.late {
			k.Errorf("the lease ended after %v; its maximum hold is %v", now.Sub(begun), hold)
		}
		time.Sleep(k.times.ttl + k.times.late)
		k.free(name, "one TTL after the maximum hold")
	}),
	lockCase("Watchdog/Batch", needs{}, func(k *lockKit) {
		// Hundreds of leases, a few connections and no more commands than needed.
		const leases, connections = 200, 20
		ttl := 2 * k.times.ttl
		c := k.client()
		var held []*locker.Lease
		for i := range leases {
			held = append(held, k.take(c.Mutex(k.key(fmt.Sprint("lock", i)), locker.TTL(ttl))))
		}
		n := k.sent(k.prefix)
		time.Sleep(ttl + ttl/10)
		// A renewal each 3/10 of the TTL at most. Where the driver tells that it is no
		// Cluster, many share a command.
		if n := k.sent(k.prefix) - n; n > 5*leases {
			k.Errorf("%d commands kept %d leases for a little more than one TTL; want 5 for each at most", n, leases)
		}
		for _, l := range held {
			k.valid(l, "one of many")
			if k.failed() {
				break
			}
		}
		if n := k.wire.Dials(); n > connections {
			k.Errorf("%d leases took %d connections; want at most %d", leases, n, connections)
		}
		if err := c.Close(); err != nil {
			k.Errorf("Close gave %v", err)
		}
	}),
}
