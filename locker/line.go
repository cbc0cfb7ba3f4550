package locker

import (
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
	mutex *Mutex // of its first leader; those of the others are alike
	other *line  // of mutexes with the same record that are not alike

	// The mutex of lines guards what follows.
	led    bool    // somebody asks the server, or has been called to
	behind bool    // others wait at the server, so that to ask without a place is in vain
	tenure *tenure // that the line holds; nil if none
	// attempt is what a leader that gave up has left to the next, with its place in
	// the queue. Only who leads uses it.
	attempt *attempt
	reason  error // why the leader does not have the lock, as far as it knows

	first, last *waiter
}

// lines are the lines of a client.
//
// Locks are taken in the order tenure, then lines.
type lines struct {
	mu       sync.Mutex
	byRecord map[string]*line // the first, see other
	closed   bool
	// To be used again. Whoever still knows a line that has ended finds that it does
	// not hold the tenure that it asks about.
	idle    []*line
	waiters []*waiter
}

// maxSpares bounds how many lines and waiters are kept to be used again.
const maxSpares = 128

// standsInLine tells whether those who lock m stand in line for it. It is for mutexes whose
// leases are renewed, since one that is not is good for its own TTL only. A policy of
// its own makes a waiter ask the server at its own times. On a quorum nothing is
// passed on, and who has an owner is granted by that.
func (m *Mutex) standsInLine() bool {
	return m.mode == modeMutex && m.cfg.renew && m.cfg.retry == nil && m.client.quorum == nil
}

// alike tells whether two mutexes of a record can share a line: the server is told the same
// of both.
func (m *Mutex) alike(o *Mutex) bool {
	return m == o || m.tail == o.tail && m.ttl == o.ttl && m.attempt() == o.attempt() && m.cfg.fenced == o.cfg.fenced && m.cfg.unfair == o.cfg.unfair
}

// find returns the line for m, or nil. It needs s.mu.
func (s *lines) find(m *Mutex) *line {
	ln := s.byRecord[m.keys.record]
	for ln != nil && !ln.mutex.alike(m) {
		ln = ln.other
	}
	return ln
}

// join returns the line for m, and the caller's place in it; none if the caller is to
// lead.
func (s *lines) join(m *Mutex, begun time.Time) (*line, *waiter, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, nil, ErrClosed
	}
	ln := s.find(m)
	if ln == nil {
		ln = s.begin(m)
		s.mu.Unlock()
		return ln, nil, nil
	}
	var w *waiter
	if n := len(s.waiters); n > 0 {
		w, s.waiters = s.waiters[n-1], s.waiters[:n-1]
	} else {
		w = &waiter{called: make(chan struct{}, 1)}
	}
	w.line, w.mutex, w.begun = ln, m, begun
	first, t := ln.first == nil, ln.tenure
	ln.push(w)
	s.mu.Unlock()
	if first && t != nil {
		t.lineForms()
	}
	return ln, w, nil
}

// begin makes a line for m that is led. It needs s.mu.
func (s *lines) begin(m *Mutex) *line {
	var ln *line
	if n := len(s.idle); n > 0 {
		ln, s.idle = s.idle[n-1], s.idle[:n-1]
	} else {
		ln = &line{lines: s}
	}
	if s.byRecord == nil {
		s.byRecord = map[string]*line{}
	}
	ln.mutex, ln.led, ln.other = m, true, s.byRecord[m.keys.record]
	s.byRecord[m.keys.record] = ln
	return ln
}

// end takes out a line in which nobody stands. It needs s.mu.
func (s *lines) end(ln *line) {
	record := ln.mutex.keys.record
	switch first := s.byRecord[record]; {
	case first != ln:
		for first.other != ln {
			first = first.other
		}
		first.other = ln.other
	case ln.other != nil:
		s.byRecord[record] = ln.other
	default:
		delete(s.byRecord, record)
	}
	ln.mutex, ln.other, ln.attempt, ln.behind, ln.reason = nil, nil, nil, false, nil
	if len(s.idle) < maxSpares {
		s.idle = append(s.idle, ln)
	}
}

// led tells whether somebody of this client asks the server for m just now.
func (s *lines) led(m *Mutex) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ln := s.find(m)
	return ln != nil && ln.led
}

// close calls all who stand in line away; no tenure is passed on from here on.
func (s *lines) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, ln := range s.byRecord {
		for ; ln != nil; ln = ln.other {
			ln.turnAway(ErrClosed)
		}
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
		return
	}
	ln.lines.end(ln)
}

func (ln *line) turnAway(err error) {
	for ln.first != nil {
		w := ln.pop()
		w.err = err
		w.called <- struct{}{}
	}
}
