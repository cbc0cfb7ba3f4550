package locker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A leash is the context of one request: it ends with the caller's, when the request has
// had its time, or with the client. As a context of package context costs about as much as
// the rest of a request, a leash serves the next one, unless it has ended or it is not
// certain that nobody heeds it any more.
//
// It is tied to the caller's context only when somebody wants to be told of its end: who
// waits for other things besides looks at both ([ends]).
type leash struct {
	inner  context.Context // ends as the leash does
	cancel context.CancelFunc
	pool   *leashes
	err    atomic.Pointer[error] // why it has ended

	// callerEnded and stopAlarm, made once.
	callerEnds func()
	stopsAlarm func() bool

	mu       sync.Mutex      // guards all below
	caller   context.Context // whose request it is
	deadline time.Time
	loosen   func() bool // unties it from the caller's context; nil if it is not tied
	released bool        // it is not tied any more
	alarm    func()      // called when the leash ends; nil if nobody has asked for it
	rang     bool        // the leash has ended

	// Where and until when the pool holds it, whose mu guards both. The place is negative
	// when it does not.
	place int
	end   time.Time
}

func newLeash(p *leashes) *leash {
	l := &leash{pool: p}
	l.inner, l.cancel = context.WithCancel(p.base)
	l.callerEnds, l.stopsAlarm = l.callerEnded, l.stopAlarm
	context.AfterFunc(l.inner, l.ring)
	return l
}

// release ends the request, which has come to err.
func (l *leash) release(err error) { l.pool.release(l, err) }

// serve makes it the leash of another request.
func (l *leash) serve(caller context.Context, deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller, l.deadline, l.loosen, l.released = caller, deadline, nil, false
}

// tie has the leash end with the caller's context.
func (l *leash) tie() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.loosen == nil && !l.released && l.caller != l.pool.base && l.caller.Done() != nil {
		l.loosen = context.AfterFunc(l.caller, l.callerEnds)
	}
}

// untie returns false if the caller's context has ended the leash, or is about to.
func (l *leash) untie() bool {
	l.mu.Lock()
	loosen := l.loosen
	l.released = true
	l.mu.Unlock()
	return loosen == nil || loosen()
}

// part has it know nothing of the caller any more, whose context may be recycled when the call has
// returned: a driver that goes on with the request may still ask the leash.
func (l *leash) part() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.caller = l.pool.base
}

// ends returns two channels of which one is closed when ctx ends; either may be nil.
func ends(ctx context.Context) (own, callers <-chan struct{}) {
	l, ok := ctx.(*leash)
	if !ok {
		return ctx.Done(), nil
	}
	caller, _ := l.request()
	return l.inner.Done(), caller.Done()
}

func (l *leash) request() (caller context.Context, deadline time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.caller, l.deadline
}

func (l *leash) callerEnded() {
	caller, _ := l.request()
	l.finish(whyEnded(caller.Err))
}

// whyEnded asks a context that has ended, in a goroutine that nobody else could recover: the
// context of a request may be cancelled, be recycled, and panic from then on, or be another
// request's, which has not ended. Package context panics where a context is done without a reason.
func whyEnded(ask func() error) (why error) {
	why = context.Canceled
	defer func() { _ = recover() }()
	if said := ask(); said != nil {
		return said
	}
	return why
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
func (l *leash) Done() <-chan struct{} {
	l.tie()
	return l.inner.Done()
}

// OnEnd is what package aside asks for, so that a driver that has a request broken off
// needs not allocate for it.
func (l *leash) OnEnd(f func()) (stop func() bool) {
	l.tie()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rang || l.alarm != nil {
		return context.AfterFunc(l.inner, f)
	}
	l.alarm = f
	return l.stopsAlarm
}

func (l *leash) ring() {
	l.mu.Lock()
	f := l.alarm
	l.alarm, l.rang = nil, true
	l.mu.Unlock()
	if f != nil {
		f()
	}
}

func (l *leash) stopAlarm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	inTime := l.alarm != nil
	l.alarm = nil
	return inTime
}

// AfterFunc lets package context derive contexts without a goroutine for each.
func (l *leash) AfterFunc(f func()) (stop func() bool) {
	l.tie()
	return context.AfterFunc(l.inner, f)
}

// Err implements [context.Context].
func (l *leash) Err() error {
	if l.inner.Err() == nil {
		l.heedCaller()
	}
	err := l.inner.Err()
	if why := l.err.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// heedCaller ends the leash if the caller's context has, and it still serves that.
func (l *leash) heedCaller() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.released {
		return
	}
	if why := l.caller.Err(); why != nil {
		l.finish(why)
	}
}

// Value implements [context.Context].
func (l *leash) Value(key any) any {
	caller, _ := l.request()
	return caller.Value(key)
}
