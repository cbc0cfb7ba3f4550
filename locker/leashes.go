package locker

import (
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// leashes are those of a client's requests. All end with base.
type leashes struct {
	base context.Context

	mu    sync.Mutex
	idle  []*leash // held by nobody, for the next requests
	held  []*leash // each knows its place
	alarm alarm    // for all whose time may be up
}

// maxIdleLeashes bounds how many are kept. Others are let go, and so is what base knows of
// them; a sync.Pool would let go of the leash alone.
const maxIdleLeashes = 1024

func newLeashes(base context.Context) *leashes {
	p := &leashes{base: base}
	p.alarm.ring = p.fire
	return p
}

// take returns a leash for a request that may take so long.
func (p *leashes) take(caller context.Context, within time.Duration) *leash {
	end := time.Now().Add(within)
	l := p.hold(end)
	l.serve(caller, end)
	return l
}

// hold returns a leash that is ended at end, unless it is dropped before.
func (p *leashes) hold(end time.Time) *leash {
	p.mu.Lock()
	defer p.mu.Unlock()
	var l *leash
	if n := len(p.idle); n > 0 {
		l, p.idle[n-1] = p.idle[n-1], nil
		p.idle = p.idle[:n-1]
	}
	if l == nil || l.inner.Err() != nil {
		l = newLeash(p)
	}
	l.end, l.place = end, len(p.held)
	p.held = append(p.held, l)
	p.alarm.by(end)
	return l
}

// release ends l's request, which has come to err.
func (p *leashes) release(l *leash, err error) {
	// The answer has come, so that nobody waits for anything that might end with l.
	over := err == nil || answered(err) || driver.OutcomeOf(err) == driver.OutcomeReplied
	untied := l.untie()
	if p.keep(l, over && untied && l.inner.Err() == nil) {
		return
	}
	if !untied {
		l.callerEnded()
	}
	l.cancel()
	l.part()
}

// keep lets go of l, and has it serve another request if it is good for that. It returns
// false if it does not.
func (p *leashes) keep(l *leash, good bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	good = p.drop(l) && good && len(p.idle) < maxIdleLeashes
	if good {
		l.serve(p.base, l.end) // so that the caller's context can be collected
		p.idle = append(p.idle, l)
	}
	return good
}

// drop returns false if l is ended by the alarm, or about to be. It needs mu.
func (p *leashes) drop(l *leash) bool {
	if l.place < 0 {
		return false
	}
	last := len(p.held) - 1
	p.held[l.place] = p.held[last]
	p.held[l.place].place = l.place
	p.held[last] = nil
	p.held = p.held[:last]
	l.place = -1
	return true
}

// fire looks again when the next one may be due: of those for which the alarm was set,
// most are gone.
func (p *leashes) fire() {
	for _, l := range p.due(time.Now()) {
		l.finish(context.DeadlineExceeded)
	}
}

func (p *leashes) due(now time.Time) []*leash {
	p.mu.Lock()
	defer p.mu.Unlock()
	var over []*leash
	var next time.Time
	for i := 0; i < len(p.held); {
		switch l := p.held[i]; {
		case !l.end.After(now):
			over = append(over, l)
			p.drop(l) // another one takes its place
			continue
		case next.IsZero() || l.end.Before(next):
			next = l.end
		}
		i++
	}
	if p.alarm.ringing(); !next.IsZero() {
		p.alarm.by(next)
	}
	return over
}
