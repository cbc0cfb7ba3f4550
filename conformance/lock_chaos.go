package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// lockChaosCases: what holds under any fault, under many at random.
var lockChaosCases = []testCase{
	lockCase("Mutex/Exclusion/Faults", needs{}, func(k *lockKit) {
		// Several clients want two locks while the network of each fails in all
		// ways. Their leases never overlap, tokens grow, and when the network is
		// well again so is everything.
		k.chaos(func(c *locker.Client, name string, fenced ...locker.Option) []*locker.Mutex {
			m := c.Mutex(name, fenced...)
			return []*locker.Mutex{m, m}
		})
	}),
}

// readWriteChaosCases is the same for readers and writers.
var readWriteChaosCases = []testCase{
	readWriteCase("Exclusion/Faults", needs{}, func(k *lockKit) {
		// Readers overlap with each other, a writer with nobody.
		k.chaos(func(c *locker.Client, name string, fenced ...locker.Option) []*locker.Mutex {
			read, write := c.Mutex(name, append(fenced, locker.ForReading())...), c.Mutex(name, append(fenced, locker.ForWriting())...)
			return []*locker.Mutex{read, read, write}
		})
	}),
}

// chaos makes several clients use a plain and a fenced lock, each by all the
// mutexes that are given for it, while the network of each fails in all ways.
func (k *lockKit) chaos(mutexes func(c *locker.Client, name string, fenced ...locker.Option) []*locker.Mutex) {
	quorum := k.o.quorum > 0
	duration := 12 * time.Second
	if k.realTime() || quorum { // in a bubble it is the many servers that take long
		duration = 4 * time.Second
	}
	ctx, cancel := k.within(duration)
	defer cancel()
	ledgers := map[*ledger][]locker.Option{
		{name: k.key("plain"), quorum: quorum}:  nil,
		{name: k.key("fenced"), quorum: quorum}: {locker.Fenced()},
	}
	var all sync.WaitGroup
	for range 3 {
		w := k.newWire()
		c := k.clientVia(w, locker.TTL(k.times.ttl))
		all.Go(func() { k.disturb(ctx, w) })
		for l, fenced := range ledgers {
			for _, m := range mutexes(c, l.name, fenced...) {
				all.Go(func() { k.use(ctx, m, l) })
			}
		}
	}
	all.Wait()
	// A reservation that was given up without the server hearing of it ends by itself, as
	// does a lease that was granted to such a reservation. That lease counts from the last
	// request that was still on its way.
	healed := 2*k.times.ttl + k.times.place + k.times.ttl
	for l, fenced := range ledgers {
		if l.grants == 0 {
			k.Errorf("the lock %s was never granted", l.name)
		}
		for _, m := range mutexes(k.client(), l.name, fenced...) {
			k.unlock(k.granted(k.later(k.ctx, m), healed+k.times.poll+k.times.grant, "after all faults a newcomer"))
		}
	}
}

// A ledger knows which leases of a lock are believed in.
type ledger struct {
	name   string
	quorum bool // where readers have no tokens

	mu     sync.Mutex
	held   []*locker.Lease
	token  locker.Token
	grants int
}

// granted enters a lease, and returns what speaks against it.
func (l *ledger) granted(lease *locker.Lease) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.grants++
	if !lease.Valid() {
		return nil // it was lost on the way from Lock to here
	}
	reads := lease.Mode() == locker.Reading
	for _, other := range l.held {
		if reads && other.Mode() == locker.Reading {
			continue
		}
		if other.Valid() || other.Context().Err() == nil {
			return fmt.Errorf("two leases are held at once: one until %v from now, the other until %v from now",
				time.Until(other.Deadline()), time.Until(lease.Deadline()))
		}
	}
	l.held = append(l.held, lease)
	if reads && l.quorum {
		return nil
	}
	if t := lease.Token(); t < l.token || t == l.token && t != 0 && !reads {
		return fmt.Errorf("the token %d was granted after %d", t, l.token)
	}
	l.token = lease.Token()
	return nil
}

// over removes a lease whose Unlock is about to be called.
func (l *ledger) over(lease *locker.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held = slices.DeleteFunc(l.held, func(o *locker.Lease) bool { return o == lease })
}

// use takes a lock again and again until ctx ends.
func (k *lockKit) use(ctx context.Context, m *locker.Mutex, l *ledger) {
	for ctx.Err() == nil {
		patience, cancel := context.WithTimeout(ctx, rand.N(2*k.times.ttl))
		lease, err := m.Lock(patience)
		cancel()
		k.checkText(err)
		if err != nil {
			k.pause(ctx, rand.N(k.times.ttl/10))
			continue
		}
		if err := l.granted(lease); err != nil {
			k.Errorf("%v", err)
		}
		held, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(lease.Context(), cancel)
		k.pause(held, rand.N(1+rand.N(3*k.times.ttl)))
		stop()
		cancel()
		l.over(lease)
		release, cancel := k.within(rand.N(k.times.ttl))
		k.checkText(lease.Unlock(release))
		cancel()
	}
}

// disturb makes the network of w fail at random until ctx ends, and mends it.
func (k *lockKit) disturb(ctx context.Context, w *wire.Wire) {
	faults := []wire.Action{
		wire.CutRequest, wire.CutReply, wire.HalfReply, wire.Silence, wire.BlackHole, wire.Duplicate,
		wire.Delay(k.times.ttl / 3), wire.Delay(2 * k.times.ttl), wire.Answer("-LOADING not yet\r\n"),
	}
	for ctx.Err() == nil {
		k.pause(ctx, rand.N(k.times.ttl/2))
		switch n := rand.IntN(len(faults) + 4); n {
		default:
			w.On(wire.Match{Arg: k.prefix}, faults[n])
		case len(faults):
			w.KillAll()
		case len(faults) + 1:
			rule := w.On(wire.Match{Arg: k.prefix}, wire.HoldRequest)
			k.pause(ctx, rand.N(3*k.times.ttl))
			rule.Remove()
			rule.Release()
		case len(faults) + 2:
			w.Partition()
			k.pause(ctx, rand.N(2*k.times.ttl))
			w.Heal()
		case len(faults) + 3:
			w.Refuse(true)
			w.KillAll()
			k.pause(ctx, rand.N(k.times.ttl))
			w.Refuse(false)
		}
	}
}

// pause waits for d or the end of ctx.
func (k *lockKit) pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
