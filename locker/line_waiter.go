package locker

import (
	"context"
	"errors"
	"time"
)

// A waiter stands in a line. It is called once: with a lease, with an error, or else
// to lead.
type waiter struct {
	line       *line
	mutex      *Mutex
	called     chan struct{} // holds one
	lease      *Lease
	err        error
	begun      time.Time
	standing   bool // in the line still
	left       bool // without being called
	prev, next *waiter
	inTheWay   *tenure // of the line, when w left it; nil if none
	reason     error   // of the leader at that time, as far as it is one to w
}

// leave takes w out of the line, unless it is called in this moment.
func (w *waiter) leave() {
	ln := w.line
	ln.lines.mu.Lock()
	if w.left = w.standing; w.left {
		ln.remove(w)
		ln.lines.mu.Unlock()
		return
	}
	ln.lines.mu.Unlock()
	<-w.called
}

// why says why w did not have the lock when it left the line at the end of ctx.
func (w *waiter) why(ctx context.Context) error {
	since := w.begun
	if w.err == ErrClosed {
		since = time.Time{} // it was in the way until then
	}
	if w.inTheWay != nil {
		if locked := w.inTheWay.lockedSince(since); locked != nil {
			return locked
		}
	}
	if w.reason != nil {
		return w.reason
	}
	return unanswered(ctx, w.begun) // as its leader was
}

// recycle gives back w, which only the caller still knows.
func (w *waiter) recycle() {
	s := w.line.lines
	s.mu.Lock()
	defer s.mu.Unlock()
	*w = waiter{called: w.called}
	if len(s.waiters) < maxSpares {
		s.waiters = append(s.waiters, w)
	}
}

// push, pop and remove need the mutex of lines.
func (ln *line) push(w *waiter) {
	w.standing, w.prev = true, ln.last
	if ln.last != nil {
		ln.last.next = w
	} else {
		ln.first = w
	}
	ln.last = w
}

func (ln *line) pop() *waiter {
	w := ln.first
	ln.remove(w)
	return w
}

func (ln *line) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		ln.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		ln.last = w.prev
	}
	w.standing, w.prev, w.next = false, nil, nil
	w.inTheWay, w.reason = ln.inTheWay(), ln.reason
	if errors.Is(w.reason, ErrLocked) && ln.unheard(w.begun) {
		w.reason = nil
	}
}
