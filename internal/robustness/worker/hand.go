package worker

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/resource"
	"github.com/golocker/golocker/locker"
)

// A hand is one goroutine of a worker: it takes one lock after the other.
type hand struct {
	cfg      Config
	name     string
	locks    []Lock
	client   *locker.Client
	log      *history.Log
	resource *resource.Client
	rand     *rand.Rand

	op int
	// besides is what still writes to the log when the hand has done its work.
	besides sync.WaitGroup
}

// one in n decides by the hand's seed.
func (h *hand) oneIn(n int) bool { return h.rand.IntN(n) == 0 }

// upTo returns a length of time below d.
func (h *hand) upTo(d time.Duration) time.Duration { return time.Duration(h.rand.Int64N(int64(d))) }

func (h *hand) run(ctx context.Context) {
	for ctx.Err() == nil {
		p := h.draw()
		h.operate(ctx, p)
		sleep(ctx, p.rest)
	}
	h.besides.Wait()
}

// sleep returns after d, or when the first of the contexts ends.
func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// record writes an event. A worker that cannot write down what it does is of no use.
func (h *hand) record(e history.Event) {
	if err := h.log.Add(e); err != nil {
		panic(err)
	}
}

// operate takes a lock as planned, and uses it.
func (h *hand) operate(ctx context.Context, p plan) {
	if p.inspect {
		// What it says is of the past at once. That it does not hang or take
		// a lock of ours for something foreign is of interest.
		h.inspect(ctx, p)
	}
	held := h.obtain(ctx, &p)
	if held == nil {
		return
	}
	if p.abandon {
		h.besides.Go(held.abandon)
		return
	}
	inner := h.nest(ctx, p, held)
	if inner != nil && p.outerFirst {
		inner, held = held, inner
	}
	if inner != nil {
		inner.use(ctx, p.hold/2)
		inner.finish(ctx, p, p.leave && p.apart)
	}
	if p.extend {
		held.extend(ctx, p.extension)
	}
	held.use(ctx, p.hold)
	held.finish(ctx, p, p.leave && (inner == nil || !p.apart))
}

// obtain takes the lock, or takes up what another worker has left: then the plan is about
// that one's lock.
func (h *hand) obtain(ctx context.Context, p *plan) *hold {
	var left parcel
	if p.takeUp {
		if left, p.takeUp = h.collect(p.which, p.copied); p.takeUp {
			p.lock, p.mode = left.Lock, left.Mode
		}
	}
	opts := append(options(p.mode), locker.TTL(p.ttl))
	if p.noRenewal {
		opts = append(opts, locker.NoRenewal())
	}
	m := h.client.Mutex(p.lock.Name, opts...)
	e := history.Event{Name: p.lock.Name, Mode: p.mode, Try: p.try, TTL: history.Time(p.ttl)}
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	if p.takeUp {
		e.Try, e.Owner, e.From = true, left.Owner, left.From // there is no waiting
		return h.take(e, func() (*locker.Lease, error) { return m.Attach(ctx, left.ID) })
	}
	if p.lock.Kind.owned() {
		o := locker.NewOwner()
		ctx, e.Owner = locker.WithOwner(ctx, o), o.String()
	}
	return h.take(e, func() (*locker.Lease, error) { return ask(ctx, m, p.try) })
}

// ask takes a lock, with or without waiting for it.
func ask(ctx context.Context, m *locker.Mutex, try bool) (*locker.Lease, error) {
	if try {
		return m.TryLock(ctx)
	}
	return m.Lock(ctx)
}

// nest re-enters the lock, or upgrades from reading to writing, if that is planned.
func (h *hand) nest(ctx context.Context, p plan, outer *hold) *hold {
	if !p.nested || !p.lock.Kind.owned() {
		return nil
	}
	mode := p.lock.Kind.strictest()
	// Of two readers that want to upgrade neither gets anywhere until one gives up.
	ctx, cancel := context.WithTimeout(ctx, p.patience/4)
	defer cancel()
	e := history.Event{Name: p.lock.Name, Mode: mode, Owner: outer.event.Owner, Try: p.try, TTL: history.Time(p.ttl)}
	if p.mode == history.Read {
		return h.take(e, func() (*locker.Lease, error) {
			if p.try {
				return outer.lease.TryUpgrade(ctx)
			}
			return outer.lease.Upgrade(ctx)
		})
	}
	ctx = locker.WithOwner(ctx, outer.lease.Owner())
	m := h.client.Mutex(p.lock.Name, append(options(mode), locker.TTL(p.ttl))...)
	return h.take(e, func() (*locker.Lease, error) { return ask(ctx, m, p.try) })
}

func (h *hand) inspect(ctx context.Context, p plan) {
	ctx, cancel := context.WithTimeout(ctx, p.patience)
	defer cancel()
	_, _ = h.client.Inspect(ctx, p.lock.Name)
}

// take asks for a lock and writes down what comes of it. It returns nil if the lock was
// not had.
func (h *hand) take(e history.Event, call func() (*locker.Lease, error)) *hold {
	h.op++
	e.Worker, e.Op = h.name, h.op
	e.Driver = strings.Join(h.cfg.Target.Drivers(), "+")
	asked := e
	asked.What, asked.At = history.Asked, history.Now()
	h.record(asked)
	lease, err := call()
	e.At = history.Now()
	if err != nil {
		e.What, e.Class, e.Error = history.Failed, classify(err), err.Error()
		if refused(err) {
			e.What, e.Class = history.Refused, ""
		}
		h.record(e)
		return nil
	}
	held := &hold{hand: h, lease: lease, event: e}
	e.What, e.Deadline, e.Token = history.Granted, deadline(lease), uint64(lease.Token())
	h.record(e)
	held.event.Token = e.Token
	held.watch()
	return held
}
