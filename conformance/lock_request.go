package conformance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// lockRequestCases: a lock request that is lost, late, doubled or given up.
var lockRequestCases = []testCase{
	lockCase("Mutex/LostReply/Acquire", needs{}, func(k *lockKit) {
		// The server has granted the lock and the client does not hear of it. The
		// lock was free, so TryLock has to succeed.
		k.modes(func(name string, opts ...locker.Option) {
			for i, f := range []fault{cutReply, halfReply, cutRequest, silence} {
				c := k.client(locker.AttemptTimeout(2 * k.time.reply))
				k.warm(c)
				name := fmt.Sprint(name, i)
				rule := k.wire.On(wire.Match{Arg: name}, f.action)
				l, err := c.Mutex(name, append(opts, locker.TTL(k.times.long))...).TryLock(k.ctx)
				if err != nil {
					k.Fatalf("%s: TryLock on a free lock gave %v%s", f.name, err, f.hint)
				}
				if rule.Applied() != 1 {
					k.Fatalf("%s did not happen: the lock was taken without a command on its key", f.name)
				}
				k.valid(l, "after a lost reply")
				if h := k.inspect(name).Holders; len(h) != 1 || h[0].Token != l.Token() {
					k.Errorf("%s: the lease has the token %d, the server says %+v", f.name, l.Token(), h)
				}
				k.unlock(l)
				k.free(name, "after a lost reply and Unlock")
			}
		})
	}),
	lockCase("Mutex/LostReply/Unlock", needs{}, func(k *lockKit) {
		for i, action := range []wire.Action{wire.CutReply, wire.HalfReply, wire.CutRequest} {
			c := k.client()
			k.warm(c)
			name := k.key(fmt.Sprint("lock", i))
			l := k.take(c.Mutex(name, locker.TTL(k.times.long)))
			rule := k.wire.On(wire.Match{Arg: name}, action)
			k.unlock(l)
			if rule.Applied() != 1 {
				k.Errorf("the release did not pass the wire")
			}
			k.free(name, "after Unlock whose reply was lost")
		}
	}),
	lockCase("Mutex/UnlockUnknown", needs{}, func(k *lockKit) {
		// The network is down at Unlock: Unlock says so, and the lock is released when
		// the network is back.
		c := k.client()
		k.warm(c)
		name := k.key("lock")
		l := k.take(c.Mutex(name, locker.TTL(k.times.long)))
		k.wire.Partition()
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		unlock := k.background(func() (driver.Value, error) { return nil, l.Unlock(ctx) })
		k.ended(l, k.times.prompt, locker.ErrReleased)
		k.wait(unlock, k.time.short+k.times.prompt, "Unlock in a partition, its ctx ended,")
		k.is("Unlock in a partition", unlock.err, locker.ErrUnknown)
		k.isNot("Unlock in a partition", unlock.err, locker.ErrNotHeld)
		k.wire.KillAll()
		k.wire.Heal()
		k.soonFree(name, "after Unlock in a partition that healed")
		k.unlock(l)
	}),
	lockCase("Mutex/DuplicatedRequest", needs{}, func(k *lockKit) {
		// Every request is applied twice at once, and a third time when the lock
		// is somebody else's already. Nothing differs from once.
		k.modes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			c := k.client()
			k.warm(c)
			rule := k.wire.On(wire.Match{Arg: name, Times: -1}, wire.Duplicate)
			l := k.take(c.Mutex(name, opts...))
			if h := k.inspect(name).Holders; len(h) != 1 || h[0].Token != l.Token() {
				k.Errorf("the lease has the token %d, the server says %+v", l.Token(), h)
			}
			if err := l.Extend(k.ctx, 2*k.times.long); err != nil {
				k.Errorf("Extend gave %v", err)
			}
			k.valid(l, "every request doubled")
			waiter := k.later(k.ctx, k.undisturbed().Mutex(name, opts...))
			k.waiters(name, 1)
			k.unlock(l)
			next := k.granted(waiter, k.times.poll+k.times.grant, "the next in turn")
			rule.Remove()
			k.valid(next, "after a doubled release of the lease before")

			value, left := k.value(name), k.left(name)
			for _, r := range k.wire.Requests(wire.Match{Arg: name}) {
				k.direct(r.Args...)
			}
			if now := k.value(name); now != value {
				k.Errorf("late duplicates of a lease that is over changed the next one's record from %q to %q", value, now)
			}
			if now := k.left(name); now > left || now < left-k.time.bound {
				k.Errorf("late duplicates of a lease that is over changed the TTL of the next one from %v to %v", left, now)
			}
			k.unlock(next)
			k.free(name, "after Unlock")
		})
	}),
	lockCase("Mutex/LateRequest/Fenced", needs{}, func(k *lockKit) {
		// The request arrives when its caller has long given up: it takes nothing.
		c := k.client()
		k.warm(c)
		name := k.key("lock")
		rule := k.wire.On(wire.Match{Arg: name}, wire.HoldRequest)
		ctx, cancel := k.within(k.time.short)
		defer cancel()
		g := k.later(ctx, c.Mutex(name, locker.Fenced(), locker.TTL(k.times.long), locker.AttemptTimeout(k.time.bound)))
		k.refused(g, k.time.bound, "Lock whose request is on its way for ever")
		// What follows arrives before the request on another connection, and after it on the same one.
		k.eventually(k.time.short, func() bool {
			return slices.ContainsFunc(k.wire.Requests(wire.Match{Arg: name}), func(r wire.Request) bool { return r.Replied })
		})
		rule.Release()
		if !k.eventually(k.time.settle, func() bool { return k.wire.Requests(wire.Match{Arg: name})[0].Forwarded > 0 }) {
			k.Fatalf("the late request was not forwarded: the suite is at fault")
		}
		time.Sleep(k.time.short)
		k.soonFree(name, "after a late request of a caller that gave up")
	}),
	lockCase("Mutex/LateGrant", needs{}, func(k *lockKit) {
		// The reply comes when the lease is nearly over, or over. What Lock returns
		// is a lease that is good, and not for longer than the server holds it.
		k.modes(func(name string, opts ...locker.Option) {
			for i, delay := range []time.Duration{k.times.ttl / 2, 2 * k.times.ttl} {
				c := k.client()
				k.warm(c)
				name := fmt.Sprint(name, i)
				k.wire.On(wire.Match{Arg: name}, wire.Delay(delay))
				g := k.later(k.ctx, c.Mutex(name, append(opts, locker.TTL(k.times.ttl), locker.NoRenewal())...))
				l := k.granted(g, k.time.bound, "Lock, its first reply late,")
				k.valid(l, fmt.Sprintf("after the first reply took %v", delay))
				k.unlock(l)
			}
		})
	}),
	lockCase("Mutex/GivenUpAttemptReleased", needs{}, func(k *lockKit) {
		// The request is executed and its reply never comes, until the caller
		// gives up. Then the lock is given back.
		k.modes(func(name string, opts ...locker.Option) {
			c := k.client()
			k.warm(c)
			m := c.Mutex(name, append(opts, locker.TTL(k.times.long), locker.AttemptTimeout(k.time.bound))...)
			rule := k.wire.On(wire.Match{Arg: name}, wire.Silence)
			ctx, cancel := k.within(k.time.short)
			defer cancel()
			k.refused(k.later(ctx, m), k.time.bound, "Lock whose reply never comes")
			k.await(rule.Happened(), k.time.bound, "the request has not reached the server")
			k.soonFree(name, "after Lock whose caller gave up")
			k.unlock(k.take(k.client().Mutex(name, opts...)))
		})
	}),
	lockCase("Mutex/CancelledWaiterLeavesNothing", needs{}, func(k *lockKit) {
		k.modes(func(name string, opts ...locker.Option) {
			opts = append(opts, locker.TTL(k.times.long))
			held := k.take(k.client().Mutex(name, opts...))
			own := k.stored()
			ctx, cancel := context.WithCancel(k.ctx)
			var waiting []*grant
			for i := range 3 {
				c := k.client()
				waiting = append(waiting, k.later(ctx, c.Mutex(name, opts...)))
				k.waiters(name, i+1)
				if len(k.server.nodes()) == 1 { // goroutines of one client share its place
					waiting = append(waiting, k.later(ctx, c.Mutex(name, opts...)))
				}
			}
			cancel()
			for _, g := range waiting {
				k.refused(g, k.times.prompt, "Lock whose ctx was cancelled")
			}
			k.waitEmpty("waiters that were cancelled", func(key string) bool {
				// The server remembers for a while which attempts are over.
				return slices.Contains(own, key) || strings.HasPrefix(key, "__golocker:v:")
			})
			if n := k.inspect(name).Waiters; n != 0 {
				k.Errorf("%d waiters are left after they were cancelled", n)
			}
			k.valid(held, "while waiters come and go")
			k.unlock(held)
			time.Sleep(k.time.short)
			k.free(name, "after its waiters were cancelled and its holder gave it up")
		})
	}),
	lockCase("Mutex/CtxPrompt", needs{}, func(k *lockKit) {
		// The network swallows everything.
		c := k.client()
		k.warm(c)
		held := k.key("held")
		k.take(k.undisturbed().Mutex(held, locker.TTL(k.times.long)))
		waiting, stop := context.WithCancel(k.ctx)
		g := k.later(waiting, c.Mutex(held))
		k.waiters(held, 1)
		k.wire.Partition()
		k.lockPrompt("Lock", func(ctx context.Context) error { _, err := c.Mutex(k.key("lock")).Lock(ctx); return err })
		k.lockPrompt("TryLock", func(ctx context.Context) error { _, err := c.Mutex(k.key("lock")).TryLock(ctx); return err })
		k.lockPrompt("fenced Lock", func(ctx context.Context) error {
			_, err := c.Mutex(k.key("lock"), locker.Fenced()).Lock(ctx)
			return err
		})
		k.lockPrompt("Do", func(ctx context.Context) error {
			return c.Do(ctx, k.key("lock"), func(context.Context) error { return nil })
		})
		fresh := k.client()
		k.lockPrompt("Lock of a client that never connected", func(ctx context.Context) error {
			_, err := fresh.Mutex(k.key("lock")).Lock(ctx)
			return err
		})
		stop()
		k.is("Lock that waited", k.refused(g, k.times.prompt, "Lock that waits, its ctx cancelled"), context.Canceled)
		k.wire.Heal()
	}),
}

// lockPrompt checks that f, which cannot succeed, returns as soon as its ctx
// ends, and says that it did.
func (k *lockKit) lockPrompt(what string, f func(context.Context) error) {
	for _, newCtx := range []ctxMaker{cancelAfter, func(k *kit) (context.Context, context.CancelFunc) { return k.within(k.time.short) }} {
		ctx, cancel := newCtx(k.kit)
		c := k.background(func() (driver.Value, error) { return nil, f(ctx) })
		k.wait(c, k.time.short+k.times.prompt, what+" whose ctx has ended")
		k.checkText(c.err)
		if ctx.Err() == nil {
			k.Errorf("%s returned %v before its ctx ended", what, c.err)
		} else {
			k.is(what, c.err, ctx.Err())
		}
		k.isNot(what, c.err, locker.ErrLocked)
		cancel()
	}
}
