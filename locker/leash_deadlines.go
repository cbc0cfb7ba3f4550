package locker

import (
	"context"
	"sync"
	"time"
)

// deadlines end the leashes whose requests have had their time. They have one timer for
// all: nearly every request is answered long before, and to set a timer for each, earlier
// than all others, would make Go's scheduler wake up a thread nearly each time.
type deadlines struct {
	mu    sync.Mutex
	held  []*leash // each knows its place
	timer *time.Timer
	armed time.Time // when the timer fires; zero if it does not
}

// add has l ended at end, unless it is removed before.
func (d *deadlines) add(l *leash, end time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l.end, l.place = end, len(d.held)
	d.held = append(d.held, l)
	if d.armed.IsZero() || end.Before(d.armed) {
		d.arm(end)
	}
}

// arm needs mu.
func (d *deadlines) arm(end time.Time) {
	d.armed = end
	if d.timer == nil {
		d.timer = time.AfterFunc(time.Until(end), d.fire)
	} else {
		d.timer.Reset(time.Until(end))
	}
}

// remove returns false if l is ended, or about to be.
func (d *deadlines) remove(l *leash) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.drop(l)
}

// drop needs mu.
func (d *deadlines) drop(l *leash) bool {
	if l.place < 0 {
		return false
	}
	last := len(d.held) - 1
	d.held[l.place] = d.held[last]
	d.held[l.place].place = l.place
	d.held[last] = nil
	d.held = d.held[:last]
	l.place = -1
	return true
}

// fire looks again when the next one may be due: of those for which the timer was set,
// most are gone.
func (d *deadlines) fire() {
	for _, l := range d.due(time.Now()) {
		l.finish(context.DeadlineExceeded)
	}
}

func (d *deadlines) due(now time.Time) []*leash {
	d.mu.Lock()
	defer d.mu.Unlock()
	var over []*leash
	var next time.Time
	for i := 0; i < len(d.held); {
		switch l := d.held[i]; {
		case !l.end.After(now):
			over = append(over, l)
			d.drop(l) // another one takes its place
			continue
		case next.IsZero() || l.end.Before(next):
			next = l.end
		}
		i++
	}
	if d.armed = next; !next.IsZero() {
		d.arm(next)
	}
	return over
}
