package locker

import (
	"context"
	"sync"
	"time"
)

// A line is where goroutines of one client stand that want one mutex. The first to
// come, and after it whoever stands first, is the leader: it alone asks the server and
// has a place in the queue there, for all of them. The tenure that it is granted then
// passes along the line, from each holder to the next, without the server, for as
// long as the [turn] lasts.
//
// A line exists while it is led or holds a tenure; nobody stands in it otherwise.
type line struct {
	lines *lines
	key   lineKey

	// The mutex of lines guards what follows.
	led    bool    // somebody asks the server, or has been called to
	tenure *tenure // that the line holds; nil if none
	// attempt is what a leader that gave up has left to the next, with its place in
	// the queue. Only who leads uses it.
	attempt *attempt
	behind  bool  // others wait at the server, so that to ask without a place is in vain
	reason  error // why the leader does not have the lock, as far as it knows

	first, last *waiter
}

// A lineKey is what must be equal in mutexes that share a line: what the server is told.
type lineKey struct {
	record, tail string
	ttl, attempt time.Duration
	fenced       bool
}

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

// lines are the lines of a client.
//
// Locks are taken in the order tenure, then lines.
type lines struct {
	mu     sync.Mutex
	byKey  map[lineKey]*line
	closed bool
	spare  *waiter // to be used again, by next
	spares int
}

// maxSpares bounds how many waiters are kept to be used again.
const maxSpares = 128

// standsInLine tells whether those who lock m stand in line for it. It is for mutexes whose
// leases are renewed, since one that is not is good for its own TTL only. A policy of
// its own makes a waiter ask the server at its own times. On a quorum nothing is
// passed on, and who has an owner is granted by that.
func (m *Mutex) standsInLine() bool {
	return m.mode == modeMutex && m.cfg.renew && m.cfg.retry == nil && m.client.quorum == nil
}

func (m *Mutex) lineKey() lineKey {
	return lineKey{m.keys.record, m.tail, m.ttl, m.attempt, m.cfg.fenced}
}

// join returns the line for m, and the caller's place in it; none if the caller is to
// lead.
func (s *lines) join(m *Mutex) (*line, *waiter, error) {
	k := m.lineKey()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, ErrClosed
	}
	ln := s.byKey[k]
	if ln == nil {
		if s.byKey == nil {
			s.byKey = map[lineKey]*line{}
		}
		ln = &line{lines: s, key: k, led: true}
		s.byKey[k] = ln
		s.mu.Unlock()
		return ln, nil, nil
	}
	w := s.spare
	if w != nil {
		s.spare, s.spares, w.next = w.next, s.spares-1, nil
	} else {
		w = &waiter{called: make(chan struct{}, 1)}
	}
	w.line, w.mutex = ln, m
	first, t := ln.first == nil, ln.tenure
	ln.push(w)
	s.mu.Unlock()
	if first && t != nil {
		t.lineForms()
	}
	return ln, w, nil
}

// led tells whether somebody of this client asks the server for m just now.
func (s *lines) led(m *Mutex) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ln := s.byKey[m.lineKey()]
	return ln != nil && ln.led
}

// close calls all who stand in line away; no tenure is passed on from here on.
func (s *lines) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, ln := range s.byKey {
		ln.turnAway(ErrClosed)
	}
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
	if s.spares < maxSpares {
		w.next, s.spare, s.spares = s.spare, w, s.spares+1
	}
}

// hold notes the tenure that the leader was granted, and tells whether somebody stands
// in line for it. It needs t.mu.
func (ln *line) hold(t *tenure) (waited bool) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.led, ln.attempt, ln.reason, ln.tenure = false, nil, nil, t
	return ln.first != nil
}

// next takes the first out of the line, for t to be passed on to; nil if there is none. It
// needs t.mu.
func (ln *line) next(t *tenure) *waiter {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.tenure != t || ln.first == nil {
		return nil
	}
	return ln.pop()
}

// vacate ends the line's holding of t, which is lost or was released. behind tells
// that others wait at the server.
func (ln *line) vacate(t *tenure, behind bool) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.tenure == t {
		ln.tenure, ln.behind = nil, behind
		ln.callLeader()
	}
}

// resign ends the leading of a caller that gives up. It leaves a, which may be nil, to
// the next one; false tells that there is none.
func (ln *line) resign(a *attempt) bool {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.attempt = a
	ln.callLeader()
	return ln.led
}

// fail ends the leading with an error that would meet everybody in the line.
func (ln *line) fail(err error) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.turnAway(err)
	ln.attempt = nil
	ln.callLeader()
}

// note keeps what the leader was told.
func (ln *line) note(reason error) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.reason = reason
}

// callLeader makes the first in line its leader, and ends the line if there is none. It
// needs the mutex of lines, as do the methods below.
func (ln *line) callLeader() {
	if ln.led = ln.first != nil; ln.led {
		ln.pop().called <- struct{}{}
	} else {
		ln.attempt = nil
		delete(ln.lines.byKey, ln.key)
	}
}

func (ln *line) turnAway(err error) {
	for ln.first != nil {
		w := ln.pop()
		w.err = err
		w.called <- struct{}{}
	}
}

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
