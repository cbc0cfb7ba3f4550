package conformance

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// lockHandoverCases: a lease goes to another process, or an administrator looks
// at a lock and ends it.
var lockHandoverCases = []testCase{
	lockCase("Handover/DetachAttach", needs{}, func(k *lockKit) {
		k.bothModes(func(name string, opts ...locker.Option) {
			a, b := k.client(), k.client(locker.Label("b"))
			k.warm(b)
			short := append(slices.Clone(opts), locker.TTL(k.times.ttl))
			l := k.take(a.Mutex(name, short...))
			id, err := l.Detach(k.ctx, k.times.long)
			if err != nil {
				k.Fatalf("Detach gave %v", err)
			}
			k.ended(l, k.times.prompt, locker.ErrReleased)
			time.Sleep(k.times.ttl * 3 / 2)
			if k.value(name) == "" {
				k.Errorf("a detached lease was given up")
			}

			// The reply to Attach is lost, and Attach succeeds all the same. A second taker fails.
			taken := k.attach(b.Mutex(name, short...), name, id)
			if l.Token() > 0 && taken.Token() <= l.Token() {
				k.Errorf("the token after taking up is %d; before it was %d", taken.Token(), l.Token())
			}
			_, err = a.Mutex(name, short...).Attach(k.ctx, id)
			k.is("a second Attach", err, locker.ErrTaken)
			k.is("Unlock by the former holder", k.tryUnlock(l), locker.ErrReleased)
			k.is("Extend by the former holder", l.Extend(k.ctx, k.times.long), locker.ErrReleased)
			if h := k.inspect(name).Holders; len(h) != 1 || h[0].Label != "b" {
				k.Errorf("after taking up the holder is %+v", h)
			}
			time.Sleep(k.times.ttl)
			k.valid(taken, "after taking up")
			k.unlock(taken)
			k.settled()
			_, err = a.Mutex(name, opts...).Attach(k.ctx, id)
			k.is("Attach to a lock that is free", err, locker.ErrAbsent)
			_, err = a.Mutex(name, opts...).Attach(k.ctx, "an id")
			k.is("Attach under what is no id", err, locker.ErrInvalid)
		})
	}),
	lockCase("Handover/GivenUp", needs{}, func(k *lockKit) { k.attachGivenUp() }),
	lockCase("Handover/OneWins", needs{}, func(k *lockKit) {
		// Of many takers at once exactly one gets the lease.
		name := k.key("lock")
		id, err := k.take(k.client().Mutex(name, locker.TTL(k.times.long))).Detach(k.ctx, k.times.long)
		if err != nil {
			k.Fatalf("Detach gave %v", err)
		}
		var mu sync.Mutex
		var won []*locker.Lease
		var all sync.WaitGroup
		for range 8 {
			m := k.client().Mutex(name, locker.TTL(k.times.long))
			all.Go(func() {
				l, err := m.Attach(k.ctx, id)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, l)
				} else {
					k.is("Attach of those who lose", err, locker.ErrTaken)
				}
			})
		}
		all.Wait()
		if len(won) != 1 {
			k.Fatalf("%d of 8 takers have the lease; want 1", len(won))
		}
		k.valid(won[0], "after taking up")
		k.unlock(won[0])
		k.free(name, "after Unlock")
	}),
	lockCase("Admin/Inspect", needs{}, func(k *lockKit) {
		c := k.client(locker.Label("me"))
		k.modes(func(name string, opts ...locker.Option) {
			inspect := func() locker.Status {
				s, err := c.Inspect(k.ctx, name)
				if err != nil {
					k.Fatalf("Inspect gave %v", err)
				}
				return s
			}
			if s := inspect(); s.Held() || s.Waiters != 0 {
				k.Errorf("Inspect of a free lock gave %+v", s)
			}
			l := k.take(c.Mutex(name, append(opts, locker.TTL(k.times.long), locker.Metadata("a job"))...))
			s := inspect()
			if !s.Held() || len(s.Holders) != 1 {
				k.Fatalf("Inspect of a lock that is held gave %+v", s)
			}
			h := s.Holders[0]
			if h.Remaining > k.times.long || h.Remaining < k.times.long-k.time.bound {
				k.Errorf("Inspect says that %v remain of %v", h.Remaining, k.times.long)
			}
			if want := (locker.Holder{Mode: locker.Exclusive, Holds: 1, Label: "me", Metadata: "a job", Token: l.Token()}); !sameHolder(h, want) {
				k.Errorf("Inspect says that the holder is %+v; want %+v", h, want)
			}
			g := k.later(k.ctx, c.Mutex(name, opts...))
			k.waiters(name, 1)
			if s := inspect(); s.Waiters != 1 {
				k.Errorf("Inspect tells of %d waiters; want 1", s.Waiters)
			}
			k.unlock(l)
			k.unlock(k.granted(g, k.times.poll+k.times.grant, "the waiter"))
			if s := inspect(); s.Held() || s.Waiters != 0 {
				k.Errorf("Inspect of a lock that was given up gave %+v", s)
			}
		})
	}),
	lockCase("Admin/ForceRelease", needs{}, func(k *lockKit) {
		c := k.client(locker.Label("me"))
		k.bothModes(func(name string, opts ...locker.Option) {
			_, err := c.ForceRelease(k.ctx, name)
			k.is("ForceRelease of a free lock", err, locker.ErrAbsent)
			l := k.take(c.Mutex(name, append(opts, locker.TTL(k.times.ttl))...))
			g := k.later(k.ctx, k.client().Mutex(name, append(opts, locker.TTL(k.times.long))...))
			k.waiters(name, 1)
			h, err := c.ForceRelease(k.ctx, name)
			if err != nil || len(h) != 1 || h[0].Label != "me" || h[0].Token != l.Token() {
				k.Errorf("ForceRelease gave (%+v, %v); want the holder", h, err)
			}
			next := k.granted(g, k.times.poll+k.times.grant, "the waiter after a force-release")
			k.ended(l, k.times.ttl, locker.ErrLost)
			if err := k.tryUnlock(l); !errors.Is(err, locker.ErrNotHeld) {
				k.Errorf("Unlock after a force-release gave %v; want ErrNotHeld", err)
			}
			k.valid(next, "after its former holder's Unlock")
			k.unlock(next)
		})
	}),
	lockCase("Admin/ForceReleaseFrom", needs{}, func(k *lockKit) {
		// Called once more, it spares the holder that has got the lock since.
		c := k.client()
		k.bothModes(func(name string, opts ...locker.Option) {
			k.take(c.Mutex(name, append(opts, locker.TTL(k.times.ttl))...))
			g := k.later(k.ctx, k.client(locker.Label("the next")).Mutex(name, append(opts, locker.TTL(k.times.long))...))
			k.waiters(name, 1)
			seen := k.inspect(name).Holders
			if h, err := c.ForceReleaseFrom(k.ctx, name, seen...); err != nil || len(h) != 1 {
				k.Errorf("ForceReleaseFrom the holder gave (%+v, %v)", h, err)
			}
			next := k.granted(g, k.times.poll+k.times.grant, "the waiter after a force-release")
			_, err := c.ForceReleaseFrom(k.ctx, name, seen...)
			k.is("ForceReleaseFrom a former holder", err, locker.ErrTaken)
			if locked, ok := errors.AsType[*locker.LockedError](err); !ok || locked.Holder.Label != "the next" {
				k.Errorf("ForceReleaseFrom a former holder gave %v; want who holds the lock", err)
			}
			k.is("Extend of who was spared", next.Extend(k.ctx, k.times.long), nil)
			k.unlock(next)
			_, err = c.ForceReleaseFrom(k.ctx, name, seen...)
			k.is("ForceReleaseFrom a former holder of a free lock", err, locker.ErrAbsent)
		})
	}),
}

// sameHolder compares all of two holders except for how long they remain and which of their leases
// are meant.
func sameHolder(a, b locker.Holder) bool {
	return a.Mode == b.Mode && a.Owner == b.Owner && a.Holds == b.Holds && a.Label == b.Label && a.Metadata == b.Metadata &&
		a.Token == b.Token && a.Foreign == b.Foreign
}

// attach takes up a lease through a network that loses the first reply.
func (k *lockKit) attach(m *locker.Mutex, name, id string) *locker.Lease {
	rule := k.wire.On(wire.Match{Arg: name}, wire.CutReply)
	l, err := m.Attach(k.ctx, id)
	if err != nil {
		k.Fatalf("Attach, a reply lost, gave %v", err)
	}
	if rule.Applied() != 1 {
		k.Errorf("Attach did not pass the wire")
	}
	return l
}

// attachGivenUp: the server executes the taking up of a lease, its reply never comes, and
// its caller gives up. The id is good for another taker.
func (k *lockKit) attachGivenUp(opts ...locker.Option) {
	opts = append(opts, locker.TTL(k.times.long))
	c := k.client()
	k.warm(c, opts...)
	name := k.key("lock")
	id, err := k.take(c.Mutex(name, opts...)).Detach(k.ctx, k.times.long)
	if err != nil {
		k.Fatalf("Detach gave %v", err)
	}
	rule := k.wire.On(wire.Match{Arg: name, Times: -1}, wire.CutReply)
	ctx, cancel := k.within(k.time.short)
	defer cancel()
	if _, err := c.Mutex(name, opts...).Attach(ctx, id); err == nil {
		k.Fatalf("Attach without a reply succeeded")
	}
	rule.Remove()
	var l *locker.Lease
	if !k.eventually(k.time.settle, func() bool {
		l, err = k.undisturbed().Mutex(name, opts...).Attach(k.ctx, id)
		return err == nil
	}) {
		k.Fatalf("after a taking up that was given up, another gave %v", err)
	}
	k.valid(l, "after taking up")
	k.unlock(l)
	k.free(name, "after Unlock")
}
