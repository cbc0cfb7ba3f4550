package locker

import (
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A contextPool has the contexts of a client's requests. All end with base.
type contextPool struct {
	base context.Context

	mu    sync.Mutex
	idle  []*requestContext // held by nobody, for the next requests
	held  []*requestContext // each knows its place
	timer sharedTimer       // for all whose time may be up
}

// maxIdleContexts bounds how many are kept. Others are let go, and so is what base knows of
// them; a sync.Pool would let go of the requestContext alone.
const maxIdleContexts = 1024

func newContextPool(base context.Context) *contextPool {
	p := &contextPool{base: base}
	p.timer.fire = p.fire
	return p
}

// get returns a context for a request that may take as long as within.
func (p *contextPool) get(caller context.Context, within time.Duration) *requestContext {
	end := time.Now().Add(within)
	c := p.hold(end)
	c.serve(caller, end)
	return c
}

// hold returns a context that is ended at end, unless it is dropped before.
func (p *contextPool) hold(end time.Time) *requestContext {
	p.mu.Lock()
	defer p.mu.Unlock()
	var c *requestContext
	if n := len(p.idle); n > 0 {
		c, p.idle[n-1] = p.idle[n-1], nil
		p.idle = p.idle[:n-1]
	}
	if c == nil || c.inner.Err() != nil {
		c = newRequestContext(p)
	}
	c.end, c.place = end, len(p.held)
	p.held = append(p.held, c)
	p.timer.fireBy(end)
	return c
}

// release ends c's request, whose outcome was err.
func (p *contextPool) release(c *requestContext, err error) {
	// The answer has come, so that nobody waits for anything that might end with c.
	over := err == nil || answered(err) || driver.OutcomeOf(err) == driver.OutcomeReplied
	untied := c.untie()
	if p.keep(c, over && untied && c.inner.Err() == nil) {
		return
	}
	if !untied {
		c.callerEnded()
	}
	c.cancel()
	c.forgetCaller()
}

// keep lets go of c, and has it serve another request if it is good for that. It returns
// false if c does not serve another one.
func (p *contextPool) keep(c *requestContext, good bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	good = p.drop(c) && good && len(p.idle) < maxIdleContexts
	if good {
		c.serve(p.base, c.end) // so that the caller's context can be collected
		p.idle = append(p.idle, c)
	}
	return good
}

// drop returns false if c is ended by the timer, or about to be. It needs mu.
func (p *contextPool) drop(c *requestContext) bool {
	if c.place < 0 {
		return false
	}
	last := len(p.held) - 1
	p.held[c.place] = p.held[last]
	p.held[c.place].place = c.place
	p.held[last] = nil
	p.held = p.held[:last]
	c.place = -1
	return true
}

// fire looks again when the next one may be due: of those for which the timer was set,
// most are gone.
func (p *contextPool) fire() {
	for _, c := range p.due(time.Now()) {
		c.finish(context.DeadlineExceeded)
	}
}

func (p *contextPool) due(now time.Time) []*requestContext {
	p.mu.Lock()
	defer p.mu.Unlock()
	var over []*requestContext
	var next time.Time
	for i := 0; i < len(p.held); {
		switch c := p.held[i]; {
		case !c.end.After(now):
			over = append(over, c)
			p.drop(c) // another one takes its place
			continue
		case next.IsZero() || c.end.Before(next):
			next = c.end
		}
		i++
	}
	if p.timer.fired(); !next.IsZero() {
		p.timer.fireBy(next)
	}
	return over
}
