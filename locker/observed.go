package locker

import (
	"context"
	"errors"
	"time"
)

func (m *Mutex) info() LockInfo {
	return LockInfo{Name: m.name, Mode: m.cfg.mode.public(), Fenced: m.cfg.fenced, TTL: m.ttl}
}

// observed is a call that takes the lock, and tells the observers of it.
func (m *Mutex) observed(ctx context.Context, op string, take func(context.Context) (*Lease, error)) (*Lease, error) {
	o, info := m.client.observers, m.info()
	if o == nil {
		return take(ctx)
	}
	_ = ctx.Err() // with a nil ctx it panics; an observer could make of that a context that does not
	ctx = o.lockStart(ctx, LockStart{info, op})
	begun, ended := time.Now(), false
	defer func() {
		if !ended { // by a panic of a RetryPolicy, say, that somebody may recover
			o.lockEnd(ctx, LockEnd{LockInfo: info, Op: op, Wait: time.Since(begun), Err: errPanicked})
		}
	}()
	lease, err := take(ctx)
	ended = true
	had := time.Now()
	e := LockEnd{LockInfo: info, Op: op, Wait: had.Sub(begun), Err: err}
	if lease == nil {
		o.lockEnd(ctx, e)
		return nil, err
	}
	e.Route, e.Left = lease.route.public(), lease.leftAt(had)
	_ = lease.unlessItPanics(func() error {
		o.lockEnd(ctx, e)
		return nil
	})
	lease.observe(&observation{ctx: ctx, since: had})
	return lease, err
}

// errPanicked is what observers are told of a call that has not returned.
var errPanicked = errors.New("locker: the call panicked")

// A route is how a lease was acquired. It is set before anybody else knows the lease.
type route byte

const (
	direct route = iota
	queued
	handedOn
	reentered
)

func (r route) public() Route {
	return [...]Route{direct: Direct, queued: Queued, handedOn: HandedOn, reentered: Reentered}[r]
}

// An observation is what is kept of a lease for the event of its end.
type observation struct {
	ctx   context.Context // of the call that took the lock
	since time.Time       // when it was acquired
	end   time.Time       // when it was given up; zero while it is held
	left  time.Duration   // at that time
}

// observe has the end of the lease told from now on, even if it has come already.
func (l *Lease) observe(o *observation) {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	l.observation = o
	if l.cause != nil {
		l.ended(l.cause)
	}
}

// leftAt is how much of the lease is left at that time.
func (l *Lease) leftAt(at time.Time) time.Duration {
	l.tenure.mu.Lock()
	defer l.tenure.mu.Unlock()
	return l.deadline().Sub(at)
}

// ended notes the end of an observed lease. A loss is told by the goroutine of the
// observers, as the present one may have more urgent things to do; the end by Unlock or Detach is
// told by these calls. It needs the tenure's mu.
func (l *Lease) ended(cause error) {
	seen, at := l.observation, time.Now()
	seen.end, seen.left = at, l.deadline().Sub(at)
	lost, ok := errors.AsType[*LostError](cause)
	if !ok {
		return
	}
	l.observation = nil
	e := l.holdEnd(seen)
	e.Lost = lost
	o := l.tenure.client.observers
	o.later(func() { o.holdEnd(seen.ctx, e) })
}

func (l *Lease) holdEnd(o *observation) HoldEnd {
	return HoldEnd{LockInfo: l.mutex.info(), Token: l.token, Held: o.end.Sub(o.since), Left: o.left}
}

// givenUp is how a holder has ended its lease, in the terms of [HoldEnd].
type givenUp struct {
	err                error
	detached, handedOn bool
}

// tellEnd tells the observers, if there are any, of the end that the holder has caused, once.
func (l *Lease) tellEnd(how givenUp) {
	t := l.tenure
	if t.client.observers == nil {
		return
	}
	t.mu.Lock()
	seen := l.observation
	if seen == nil || seen.end.IsZero() {
		t.mu.Unlock()
		return
	}
	l.observation = nil
	t.mu.Unlock()
	e := l.holdEnd(seen)
	e.Release, e.Err, e.Detached, e.HandedOn = time.Since(seen.end), how.err, how.detached, how.handedOn
	t.client.observers.holdEnd(seen.ctx, e)
}

// observeRenewal tells the observers of a renewal's reply, before it has its effect. It
// needs t.mu.
func (t *tenure) observeRenewal(sent, now moment, err error) {
	ttl := min(t.lasts, t.asked) // where Extend asked for more, it is late only once less than that is left
	armed := t.term.deadline.Add(margin(ttl) - ttl)
	info := t.mutex.info()
	info.TTL = ttl
	t.client.observers.renewal(Renewal{
		LockInfo: info, Took: now.at.Sub(sent.at), Err: err,
		Late: max(sent.at.Sub(armed)-ttl/3, 0), Left: t.term.leftAt(now),
	})
}
