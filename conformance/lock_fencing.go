package conformance

import (
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// lockFencingCases: a later grant has a larger token.
var lockFencingCases = []testCase{
	lockCase("Fencing/Grows", needs{}, func(k *lockKit) {
		// However the previous lease ended, and whoever had it.
		name := k.key("lock")
		a, b := k.client(), k.client()
		var last locker.Token
		grown := func(l *locker.Lease, after string) *locker.Lease {
			if t := l.Token(); t <= last || t >= 1<<53 {
				k.Errorf("after %s the token is %d; the one before was %d, and it stays below 2^53", after, t, last)
			}
			last = l.Token()
			return l
		}
		m, n := a.Mutex(name, locker.Fenced(), locker.TTL(k.times.long)), b.Mutex(name, locker.Fenced(), locker.TTL(k.times.long))
		k.unlock(grown(k.take(m), "nothing"))
		k.unlock(grown(k.take(m), "a release"))
		grown(k.take(n), "a release of another client")
		k.direct("DEL", name)
		grown(k.take(m), "the loss of the record")
		if _, err := b.ForceRelease(k.ctx, name); err != nil {
			k.Errorf("ForceRelease gave %v", err)
		}
		l := grown(k.take(n), "a force-release")
		id, err := l.Detach(k.ctx, k.times.long)
		if err != nil {
			k.Fatalf("Detach gave %v", err)
		}
		if l, err = m.Attach(k.ctx, id); err != nil {
			k.Fatalf("Attach gave %v", err)
		}
		k.unlock(grown(l, "taking up a detached lease"))
		grown(k.take(a.Mutex(name, locker.Fenced(), locker.TTL(k.times.ttl), locker.NoRenewal())), "a release")
		k.unlock(grown(k.granted(k.later(k.ctx, n), k.times.ttl+k.times.poll+k.times.grant, "a waiter"), "the end of a TTL"))
		if t := k.take(a.Mutex(k.key("plain"))).Token(); t != 0 {
			k.Errorf("the token of a lock that is not fenced is %d; want 0", t)
		}
	}),
	lockCase("Fencing/KeptOnRenewal", needs{}, func(k *lockKit) {
		// A lease has one token for life, and it is the one that the server knows.
		c := k.client()
		k.warm(c)
		var all sync.WaitGroup
		for i, fault := range []*wire.Action{nil, &wire.CutReply, &wire.Duplicate} {
			all.Go(func() {
				name := k.key(string(rune('a' + i)))
				if fault != nil {
					k.wire.On(wire.Match{Arg: name}, *fault)
				}
				l := k.take(c.Mutex(name, locker.Fenced(), locker.TTL(k.times.ttl)))
				token := l.Token()
				same := func(when string) {
					h := k.inspect(name).Holders
					if len(h) != 1 || h[0].Token != token || l.Token() != token {
						k.Errorf("%s the lease has the token %d, at first %d, and the server says %+v", when, l.Token(), token, h)
					}
				}
				same("when it is taken")
				time.Sleep(k.times.ttl)
				same("after renewals")
				if err := l.Extend(k.ctx, k.times.long); err != nil {
					k.Errorf("Extend gave %v", err)
				}
				same("after Extend")
				k.unlock(l)
			})
		}
		all.Wait()
	}),
	lockCase("Fencing/Refuses", needs{}, func(k *lockKit) {
		// A holder that was cut off past its lease writes late. A resource that
		// refuses smaller tokens refuses this write.
		name := k.key("lock")
		w := k.newWire()
		var r resource
		paused := k.take(k.clientVia(w).Mutex(name, locker.Fenced(), locker.TTL(k.times.ttl)))
		if !r.write(paused.Token()) {
			k.Errorf("the first holder's write was refused")
		}
		w.Partition()
		m := k.client().Mutex(name, locker.Fenced(), locker.TTL(k.times.ttl))
		next := k.granted(k.later(k.ctx, m), 2*k.times.ttl+k.times.poll, "the second holder")
		if !r.write(next.Token()) {
			k.Errorf("the second holder's write was refused: its token is %d, the first had %d", next.Token(), paused.Token())
		}
		if r.write(paused.Token()) {
			k.Errorf("the first holder's late write was accepted: its token is %d, the second has %d", paused.Token(), next.Token())
		}
		time.Sleep(k.times.ttl / 2) // a renewal keeps the token
		if !r.write(next.Token()) {
			k.Errorf("the second holder's second write was refused")
		}
		k.unlock(next)
		w.Heal()
	}),
}

// A resource refuses a write whose token is smaller than the largest it has seen.
type resource struct {
	mu   sync.Mutex
	seen locker.Token
}

func (r *resource) write(t locker.Token) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t < r.seen {
		return false
	}
	r.seen = t
	return true
}
