package conformance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockCloseCases: nothing is left behind, neither by a client that closes nor on
// the server for ever.
var lockCloseCases = []testCase{
	lockCase("Close/ReleasesHeld", needs{}, func(k *lockKit) {
		c := k.client()
		var held []*locker.Lease
		k.modes(func(name string, opts ...locker.Option) {
			for i := range 3 {
				held = append(held, k.take(c.Mutex(fmt.Sprint(name, i), append(opts, locker.TTL(k.times.long))...)))
			}
		})
		g := k.later(k.ctx, c.Mutex(held[0].Name()))
		k.waiters(held[0].Name(), 1)
		var all sync.WaitGroup
		for range 2 {
			all.Go(func() {
				if err := c.Close(); err != nil {
					k.Errorf("Close gave %v", err)
				}
			})
		}
		all.Wait()
		for _, l := range held {
			k.free(l.Name(), "after Close")
			k.ended(l, k.times.prompt, locker.ErrLost, locker.ErrClosed)
			k.unlock(l) // Close did it
		}
		err := k.refused(g, k.times.prompt, "Lock that waited at Close")
		k.is("Lock that waited at Close", err, locker.ErrClosed)
		_, err = c.Mutex(k.key("late")).Lock(k.ctx)
		k.is("Lock after Close", err, locker.ErrClosed)
		_, err = c.Inspect(k.ctx, k.key("late"))
		k.is("Inspect after Close", err, locker.ErrClosed)
		k.free(k.key("late"), "after Close")
	}),
	lockCase("Close/Unconfirmed", needs{}, func(k *lockKit) {
		// Close names the locks that it could not release for certain.
		c := k.client()
		l := k.take(c.Mutex(k.key("lock"), locker.TTL(k.times.long)))
		k.wire.Partition()
		var err error
		done := k.background(func() (driver.Value, error) { err = c.Close(); return nil, nil })
		k.wait(done, 2*k.time.bound, "Close in a partition")
		k.checkText(err)
		k.is("Close in a partition", err, locker.ErrUnknown)
		if err != nil && !strings.Contains(err.Error(), "lock") {
			k.Errorf("Close in a partition gave %v; want it to name the lock", err)
		}
		k.ended(l, k.times.prompt, locker.ErrLost, locker.ErrClosed)
		k.wire.Heal()
	}),
	lockCase("Close/NoLeak", needs{}, func(k *lockKit) {
		// A client is closed with leases held, somebody waiting and work in the
		// background. In a bubble every case ends with this check.
		before := k.goroutines()
		c := k.client()
		k.warm(c)
		k.take(c.Mutex(k.key("held"), locker.TTL(k.times.ttl)))
		other := k.key("other")
		k.direct("SET", other, "somebody", "PX", "600000")
		g := k.later(k.ctx, c.Mutex(other))
		k.waiters(other, 1)
		rule := k.wire.On(wire.Match{Arg: k.key("given up"), Times: -1}, wire.CutReply)
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		_, err := c.Mutex(k.key("given up")).Lock(ctx)
		k.isNot("Lock without any reply", err, locker.ErrLocked)
		rule.Remove()
		if err := c.Close(); err != nil {
			k.Errorf("Close gave %v", err)
		}
		k.refused(g, k.times.prompt, "Lock that waited at Close")
		if !k.eventually(k.time.settle, func() bool { return k.wire.Open() == 0 }) {
			k.Errorf("%d connections are open after Close", k.wire.Open())
		}
		k.free(k.key("held"), "after Close")
		k.soonFree(k.key("given up"), "after Close")
		if k.admin != nil {
			k.checkText(k.admin.Close())
		}
		k.noNewGoroutines(before)
	}),
	lockCase("TTL/EveryKey", needs{}, func(k *lockKit) { k.everyKeyHasTTL() }),
}

// everyKeyHasTTL: between any two commands about a lock with these options every
// key has a TTL. Replies are slow, so that somebody looks between them.
func (k *lockKit) everyKeyHasTTL(more ...locker.Option) {
	for _, mode := range []string{"plain", "fenced"} {
		k.wire.On(wire.Match{Arg: k.prefix + mode, Times: -1}, wire.Delay(3*sampled))
	}
	ctx, cancel := context.WithCancel(k.ctx)
	var all sync.WaitGroup
	all.Go(func() { k.sample(ctx) })
	k.bothModes(func(name string, opts ...locker.Option) {
		c, other := k.client(), k.client()
		opts = append(append(opts, more...), locker.TTL(k.times.ttl))
		held := k.take(c.Mutex(name, opts...))
		short, cancel := k.within(k.time.short)
		defer cancel()
		cancelled, stays := k.later(short, other.Mutex(name, opts...)), k.later(k.ctx, other.Mutex(name, opts...))
		k.refused(cancelled, k.time.short+k.times.prompt, "Lock of a lock that is held")
		time.Sleep(k.times.ttl / 2)
		if err := held.Extend(k.ctx, 2*k.times.ttl); err != nil {
			k.Errorf("Extend gave %v", err)
		}
		k.unlock(held)
		l := k.granted(stays, k.times.poll+k.times.grant, "a waiter")
		id, err := l.Detach(k.ctx, k.times.long)
		if err != nil {
			k.Fatalf("Detach gave %v", err)
		}
		if l, err = c.Mutex(name, opts...).Attach(k.ctx, id); err != nil {
			k.Fatalf("Attach gave %v", err)
		}
		k.unlock(l)
		// An attempt that is given up, and remembered.
		lost := k.prefix + "lost " + name[len(k.prefix):]
		rule := k.wire.On(wire.Match{Arg: lost, Times: -1}, wire.CutReply)
		short, cancel = k.within(k.time.short)
		defer cancel()
		k.refused(k.later(short, c.Mutex(lost, opts...)), k.time.short+k.times.prompt, "Lock without a reply")
		rule.Remove()
		k.soonFree(lost, "after Lock whose caller gave up")
	})
	cancel()
	all.Wait()
}

// sampled is the interval at which sample looks: shorter than the one at which delayed requests are
// executed.
const sampled = 4 * time.Millisecond

// sample looks, every so often until ctx ends, for keys of this case that would stay for
// ever.
func (k *lockKit) sample(ctx context.Context) {
	const immortal = `local found = {}
		for _, key in ipairs(redis.call('KEYS', ARGV[1])) do
			if redis.call('PTTL', key) == -1 then table.insert(found, key) end
		end
		return found`
	pattern := "*" + k.prefix[len("conformance:"):] + "*"
	for ctx.Err() == nil {
		switch found := k.direct("EVAL", immortal, "0", pattern).(type) {
		case []any:
			if len(found) > 0 {
				k.Errorf("these keys have no TTL: %q", found)
				return
			}
		default:
			k.Errorf("looking for keys without TTL: %v", errors.New(show(found)))
			return
		}
		time.Sleep(sampled)
	}
}
