package locker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A leash is the context of one request: it ends with the caller's, when the request has
// had its time, or with the client. As a context of package context costs about as much as
// the rest of a request, a leash serves the next one, unless it has ended or it is not
// certain that nobody heeds it any more.
type leash struct {
	inner  context.Context // ends as the leash does
	cancel context.CancelFunc
	pool   *leashes
	ended  func()                // callerEnded, made once
	err    atomic.Pointer[error] // why it has ended
	untie  func() bool           // from the caller's context; nil if that cannot end

	silent func() bool // silence, made once

	mu       sync.Mutex      // guards all below
	caller   context.Context // whose request it is
	deadline time.Time
	called   func() // when the leash ends; nil if nobody has asked for it
	rung     bool   // it has ended

	// Where and until when it is held by the pool's deadlines, whose mu guards both. The
	// place is negative when it is not held.
	place int
	end   time.Time
}

// leashes are those of a client that nobody holds. All end with base.
type leashes struct {
	base context.Context
	idle sync.Pool
	deadlines
}

// take returns a leash for a request that may take so long.
func (p *leashes) take(caller context.Context, within time.Duration) *leash {
	l, _ := p.idle.Get().(*leash)
	if l == nil || l.inner.Err() != nil {
		l = &leash{pool: p}
		l.inner, l.cancel = context.WithCancel(p.base)
		l.ended, l.silent = l.callerEnded, l.silence
		context.AfterFunc(l.inner, l.ring)
	}
	end := time.Now().Add(within)
	l.serve(caller, end)
	p.add(l, end)
	if l.untie = nil; caller.Done() != nil {
		l.untie = context.AfterFunc(caller, l.ended)
	}
	return l
}

// release ends the request, which has come to err.
func (l *leash) release(err error) {
	stopped := l.pool.remove(l)
	if l.untie != nil {
		stopped = l.untie() && stopped
	}
	if stopped && l.inner.Err() == nil && (err == nil || driver.OutcomeOf(err) == driver.OutcomeReplied) {
		l.pool.idle.Put(l)
	} else {
		l.cancel()
	}
}

// serve makes it the leash of another request.
func (l *leash) serve(caller context.Context, deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller, l.deadline = caller, deadline
}

func (l *leash) request() (caller context.Context, deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caller, l.deadline
}

func (l *leash) callerEnded() {
	caller, _ := l.request()
	l.finish(caller.Err())
}

func (l *leash) finish(why error) {
	l.err.CompareAndSwap(nil, &why)
	l.cancel()
}

// Deadline implements [context.Context].
func (l *leash) Deadline() (time.Time, bool) {
	caller, deadline := l.request()
	if end, ok := caller.Deadline(); ok && end.Before(deadline) {
		return end, true
	}
	return deadline, true
}

// Done implements [context.Context].
func (l *leash) Done() <-chan struct{} { return l.inner.Done() }

// OnEnd is what package aside asks for, so that a driver that has a request broken off
// needs not allocate for it.
func (l *leash) OnEnd(f func()) (stop func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rung || l.called != nil {
		return context.AfterFunc(l.inner, f)
	}
	l.called = f
	return l.silent
}

func (l *leash) ring() {
	l.mu.Lock()
	f := l.called
	l.called, l.rung = nil, true
	l.mu.Unlock()
	if f != nil {
		f()
	}
}

func (l *leash) silence() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	inTime := l.called != nil
	l.called = nil
	return inTime
}

// AfterFunc lets package context derive contexts without a goroutine for each.
func (l *leash) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(l.inner, f) }

// Err implements [context.Context].
func (l *leash) Err() error {
	err := l.inner.Err()
	if why := l.err.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// Value implements [context.Context].
func (l *leash) Value(key any) any {
	caller, _ := l.request()
	return caller.Value(key)
}
