package locker

import (
	"context"
	"sync"
)

// observers are those of a client. There is none where nobody observes, and a lock then
// costs no more than finding that out.
type observers struct {
	list []Observer

	// What is told by a goroutine of its own, which exists while there is something to
	// tell. So no tenure's mutex is held for it, and no renewal is delayed.
	mu    sync.Mutex
	queue []func()
	idle  chan struct{} // closed when that goroutine ends; nil if there is none
}

// maxLateRenewals is how many events may wait for an observer without renewals being
// left out. Events of other kinds are bounded by the number of leases and connections.
const maxLateRenewals = 1024

func newObservers(list []Observer) *observers {
	if len(list) == 0 {
		return nil
	}
	return &observers{list: list}
}

func (o *observers) lockStart(ctx context.Context, e LockStart) context.Context {
	for i := range o.list {
		if f := o.list[i].LockStart; f != nil {
			if derived := f(ctx, e); derived != nil {
				ctx = derived
			}
		}
	}
	return ctx
}

func (o *observers) lockEnd(ctx context.Context, e LockEnd) {
	for i := range o.list {
		if f := o.list[i].LockEnd; f != nil {
			f(ctx, e)
		}
	}
}

func (o *observers) holdEnd(ctx context.Context, e HoldEnd) {
	for i := range o.list {
		if f := o.list[i].HoldEnd; f != nil {
			f(ctx, e)
		}
	}
}

func (o *observers) renewal(e Renewal) {
	o.mu.Lock()
	full := len(o.queue) >= maxLateRenewals
	o.mu.Unlock()
	if full {
		return
	}
	tellLater(o, func(to *Observer) func(Renewal) { return to.Renewal }, e)
}

func (o *observers) healed(e Healed) {
	tellLater(o, func(to *Observer) func(Healed) { return to.Healed }, e)
}

// subscription may be called on nil.
func (o *observers) subscription(e Subscription) {
	if o != nil {
		tellLater(o, func(to *Observer) func(Subscription) { return to.Subscription }, e)
	}
}

func (o *observers) warning(e Warning) {
	tellLater(o, func(to *Observer) func(Warning) { return to.Warning }, e)
}

// tellLater gives e to all observers that want it.
func tellLater[E any](o *observers, of func(*Observer) func(E), e E) {
	for i := range o.list {
		if f := of(&o.list[i]); f != nil {
			o.later(func() { f(e) })
		}
	}
}

// later has tell called by the goroutine of the observers, after what came before.
func (o *observers) later(tell func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, tell)
	if o.idle == nil {
		o.idle = make(chan struct{})
		go o.work()
	}
}

func (o *observers) work() {
	over := false
	defer func() {
		if !over {
			go o.work() // an observer has ended this goroutine, as t.FailNow does
		}
	}()
	for tell := o.next(); tell != nil; tell = o.next() {
		tell()
	}
	over = true
}

// next takes the first out of the queue, or returns nil at its end.
func (o *observers) next() (tell func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) == 0 {
		close(o.idle)
		o.queue, o.idle = nil, nil
		return nil
	}
	tell, o.queue[0] = o.queue[0], nil
	o.queue = o.queue[1:]
	return tell
}

// close waits for the last event, within bounds. It may be called on nil.
func (o *observers) close() {
	if o == nil {
		return
	}
	o.mu.Lock()
	idle := o.idle
	o.mu.Unlock()
	if idle != nil {
		await(nil, idle, closeTime)
	}
}
