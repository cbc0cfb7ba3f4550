package locker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A requestContext is the context of one request: it ends with the caller's, when the request has
// had its time, or with the client. As a context of package context costs about as much as
// the rest of a request, it is kept for the next one, unless it has ended or it is not
// certain that nobody heeds it any more.
//
// It is tied to the caller's context only when somebody wants to be told of its end: a
// goroutine that waits for other things besides looks at both ([ends]).
type requestContext struct {
	inner  context.Context // ends when this does
	cancel context.CancelFunc
	pool   *contextPool
	err    atomic.Pointer[error] // why it has ended

	// callerEnded and stopOnEnd, made once.
	callerEndedFunc func()
	stopOnEndFunc   func() bool

	mu       sync.Mutex      // guards all below
	caller   context.Context // whose request it is
	deadline time.Time
	loosen   func() bool // unties it from the caller's context; nil if it is not tied
	released bool        // it is not tied any more
	onEnd    func()      // called at the end; nil if nobody has asked for it
	ended    bool        // onEnd has been called, or would have been

	// Where and until when the pool holds it, whose mu guards both. The place is negative
	// when it does not.
	place int
	end   time.Time
}

func newRequestContext(p *contextPool) *requestContext {
	c := &requestContext{pool: p}
	c.inner, c.cancel = context.WithCancel(p.base)
	c.callerEndedFunc, c.stopOnEndFunc = c.callerEnded, c.stopOnEnd
	context.AfterFunc(c.inner, c.runOnEnd)
	return c
}

// release ends the request, whose outcome was err.
func (c *requestContext) release(err error) { c.pool.release(c, err) }

// serve makes it the context of another request.
func (c *requestContext) serve(caller context.Context, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caller, c.deadline, c.loosen, c.released = caller, deadline, nil, false
}

// tie has it end with the caller's context.
func (c *requestContext) tie() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loosen == nil && !c.released && c.caller != c.pool.base && c.caller.Done() != nil {
		c.loosen = context.AfterFunc(c.caller, c.callerEndedFunc)
	}
}

// untie returns false if the caller's context has ended it, or is about to.
func (c *requestContext) untie() bool {
	c.mu.Lock()
	loosen := c.loosen
	c.released = true
	c.mu.Unlock()
	return loosen == nil || loosen()
}

// forgetCaller has it know nothing of the caller any more, whose context may be recycled when the call has
// returned: a driver that goes on with the request may still ask this context.
func (c *requestContext) forgetCaller() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.caller = c.pool.base
}

// ends returns two channels of which one is closed when ctx ends; either may be nil.
func ends(ctx context.Context) (own, callers <-chan struct{}) {
	c, ok := ctx.(*requestContext)
	if !ok {
		return ctx.Done(), nil
	}
	caller, _ := c.request()
	return c.inner.Done(), caller.Done()
}

func (c *requestContext) request() (caller context.Context, deadline time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.caller, c.deadline
}

func (c *requestContext) callerEnded() {
	caller, _ := c.request()
	c.finish(whyEnded(caller.Err))
}

// whyEnded asks a context that has ended why it has, in a goroutine in which nobody else could
// recover. The context of a request may be cancelled and recycled, and from then on panic or be
// another request's, which has not ended. Package context panics where a context is done without a
// reason.
func whyEnded(ask func() error) (why error) {
	why = context.Canceled
	defer func() { _ = recover() }()
	if said := ask(); said != nil {
		return said
	}
	return why
}

func (c *requestContext) finish(why error) {
	c.err.CompareAndSwap(nil, &why)
	c.cancel()
}

// Deadline implements [context.Context].
func (c *requestContext) Deadline() (time.Time, bool) {
	caller, deadline := c.request()
	if end, ok := caller.Deadline(); ok && end.Before(deadline) {
		return end, true
	}
	return deadline, true
}

// Done implements [context.Context].
func (c *requestContext) Done() <-chan struct{} {
	c.tie()
	return c.inner.Done()
}

// OnEnd is what package aside asks for, so that a driver that has a request broken off
// needs not allocate for it.
func (c *requestContext) OnEnd(f func()) (stop func() bool) {
	c.tie()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.onEnd != nil {
		return context.AfterFunc(c.inner, f)
	}
	c.onEnd = f
	return c.stopOnEndFunc
}

func (c *requestContext) runOnEnd() {
	c.mu.Lock()
	f := c.onEnd
	c.onEnd, c.ended = nil, true
	c.mu.Unlock()
	if f != nil {
		f()
	}
}

func (c *requestContext) stopOnEnd() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	inTime := c.onEnd != nil
	c.onEnd = nil
	return inTime
}

// AfterFunc lets package context derive contexts without a goroutine for each.
func (c *requestContext) AfterFunc(f func()) (stop func() bool) {
	c.tie()
	return context.AfterFunc(c.inner, f)
}

// Err implements [context.Context].
func (c *requestContext) Err() error {
	if c.inner.Err() == nil {
		c.heedCaller()
	}
	err := c.inner.Err()
	if why := c.err.Load(); err != nil && why != nil {
		return *why
	}
	return err
}

// heedCaller ends c if the caller's context has ended and c still serves that.
func (c *requestContext) heedCaller() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.released {
		return
	}
	if why := c.caller.Err(); why != nil {
		c.finish(why)
	}
}

// Value implements [context.Context].
func (c *requestContext) Value(key any) any {
	caller, _ := c.request()
	return caller.Value(key)
}
