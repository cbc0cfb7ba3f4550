package locker

import "context"

// A waiter stands in a line. It is called once: with a lease, with an error, or else
// to lead.
type waiter struct {
	line       *line
	mutex      *Mutex
	called     chan struct{} // holds one
	lease      *Lease
	err        error
	standing   bool // in the line still
	prev, next *waiter
	inTheWay   *tenure // that the line held when w left it; nil if none
	reason     error   // of the leader at that time
}

// wait returns true once w is called. If ctx ends before, w has left the line.
//
// Goroutines stand here in their thousands: with what calls it, this has to get by with
// the smallest stack.
func (w *waiter) wait(ctx context.Context) (called bool) {
	select {
	case <-w.called:
		return true
	case <-ctx.Done():
		return w.leave()
	}
}

// leave takes w out of the line, unless it is called in this moment.
func (w *waiter) leave() (called bool) {
	ln := w.line
	ln.lines.mu.Lock()
	if !w.standing {
		ln.lines.mu.Unlock()
		<-w.called
		return true
	}
	defer ln.lines.mu.Unlock()
	ln.remove(w)
	return false
}

// why says why w did not have the lock when it left the line; nil if nobody knew.
func (w *waiter) why() error {
	if w.inTheWay != nil {
		return w.inTheWay.locked()
	}
	return w.reason
}

// recycle gives w back, which nobody knows any more but the caller.
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
	w.inTheWay, w.reason = ln.tenure, ln.reason
}
