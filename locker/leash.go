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
	ended  func() // callerEnded, made once
	use    atomic.Pointer[use]
	err    atomic.Pointer[error] // why it has ended
	untie  func() bool           // from the caller's context; nil if that cannot end

	// Where and until when it is held by the pool's deadlines, whose mu guards both. The
	// place is negative when it is not held.
	place int
	end   time.Time
}

// A use is what is particular to one request.
type use struct {
	caller   context.Context
	deadline time.Time
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
		l.ended = l.callerEnded
	}
	end := time.Now().Add(within)
	l.use.Store(&use{caller, end})
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

func (l *leash) callerEnded() { l.finish(l.use.Load().caller.Err()) }

func (l *leash) finish(why error) {
	l.err.CompareAndSwap(nil, &why)
	l.cancel()
}

// Deadline implements [context.Context].
func (l *leash) Deadline() (time.Time, bool) {
	u := l.use.Load()
	if end, ok := u.caller.Deadline(); ok && end.Before(u.deadline) {
		return end, true
	}
	return u.deadline, true
}

// Done implements [context.Context].
func (l *leash) Done() <-chan struct{} { return l.inner.Done() }

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
func (l *leash) Value(key any) any { return l.use.Load().caller.Value(key) }
