package locker

import (
	"sync"
	"time"
)

// A line is where goroutines of one client stand that want one mutex. The first to
// come, and after it whoever stands first, is the leader: it alone asks the server and
// has a place in the queue there, for all of them. The tenure that it is granted then
// passes along the line, from each holder to the next, without the server, for as
// long as the [turn] lasts. If that is over while somebody holds the lock still, the
// next leader takes its place in the queue meanwhile, before whoever comes later.
//
// A line exists while it is led or holds a tenure; nobody stands in it otherwise.
type line struct {
	lines *lines
	mutex *Mutex // of its first leader; those of the others are alike
	other *line  // of mutexes with the same record that are not alike

	// The mutex of lines guards what follows.
	led    bool    // somebody asks the server, or has been called to
	behind bool    // others wait at the server, so that asking without a place is in vain
	tenure *tenure // that the line holds; nil if none
	past   *tenure // that it held before, while its leader has not been told more
	// attempt is what a leader that gave up has left to the next, with its place in
	// the queue. Only the leader uses it.
	attempt *attempt
	reason  error // why the leader does not have the lock, as far as it knows
	// silent is when the first request was made since the leaders last had an answer;
	// zero if the last request was answered.
	silent monoTime

	first, last *waiter
}

// lines are the lines of a client.
//
// Locks are taken in the order tenure, then lines.
type lines struct {
	mu       sync.Mutex
	byRecord map[string]*line // the first, see other
	closed   bool
	// Kept to be used again. Whoever still knows a line that has ended finds that the
	// line does not hold the tenure in question.
	idle    []*line
	waiters []*waiter
}

// maxSpares bounds how many lines and waiters are kept to be used again.
const maxSpares = 128

// standsInLine tells whether those who lock m stand in line for it. Lines are for mutexes
// whose leases are renewed, since a lease that is not is good for its own TTL only. A
// waiter with a policy of its own asks the server at its own times. On a quorum nothing is
// passed on, and where there are owners the lock is granted by owner.
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
	ln.mutex, ln.other, ln.attempt, ln.behind, ln.reason, ln.past = nil, nil, nil, false, nil, nil
	ln.silent = 0
	if len(s.idle) < maxSpares {
		s.idle = append(s.idle, ln)
	}
}

// waited tells whether somebody of this client asks the server for m just now, or stands in line for it:
// a lock that goes back to the server is free there before the line hears of that.
func (s *lines) waited(m *Mutex) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	ln := s.find(m)
	return ln != nil && (ln.led || ln.first != nil)
}

// close calls away all who stand in line; from here on no tenure is passed on.
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
	ln.led, ln.attempt, ln.reason, ln.tenure, ln.past, ln.silent = false, nil, nil, t, nil, 0
	return ln.first != nil
}

// waits tells whether somebody stands in line for t to be passed on.
func (ln *line) waits(t *tenure) bool {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	return ln.passes(t)
}

// passes tells whether t goes to the waiter who stands first. It does not once somebody
// leads again: the leader came before, and has its place at the server. It needs the mutex
// of lines.
func (ln *line) passes(t *tenure) bool {
	return ln.tenure == t && !ln.led && ln.first != nil
}

// next takes the first out of the line, for t to be passed on to; nil if there is none. It
// needs t.mu.
func (ln *line) next(t *tenure) *waiter {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if !ln.passes(t) {
		return nil
	}
	return ln.pop()
}

// precede makes the waiter who stands first the leader while t, which is not passed on any
// more, is held: the leader's place in the queue is before those who come to the server from
// now on.
func (ln *line) precede(t *tenure) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.passes(t) {
		ln.behind = true
		ln.callLeader()
	}
}

// vacate ends the line's holding of t, which is lost or was released. behind tells
// that others wait at the server. led tells that somebody asks the server already.
func (ln *line) vacate(t *tenure, behind bool) (led bool) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.tenure != t {
		return false
	}
	if ln.tenure = nil; ln.reason == nil {
		ln.past = t
	}
	if ln.led {
		return true
	}
	ln.behind = behind
	ln.callLeader()
	return false
}

// lead returns what the leader goes on with: the attempt of an earlier leader, or else whether
// others wait at the server, and what has been in the way, or nil.
func (ln *line) lead() (a *attempt, behind bool, inTheWay *tenure) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	return ln.attempt, ln.behind, ln.inTheWay()
}

// inTheWay returns the tenure that whoever stands in line has had to wait for; nil if there is
// none, or the leader knows more. It needs the mutex of lines.
func (ln *line) inTheWay() *tenure {
	if ln.tenure != nil {
		return ln.tenure
	}
	return ln.past
}

// resign ends the leading of a caller that gives up. It leaves a, which may be nil, to
// the next one; false tells that there is none.
func (ln *line) resign(a *attempt) bool {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.attempt = a
	if ln.callLeader(); !ln.led {
		ln.attempt = nil
	}
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

// asks notes that the leader makes a request.
func (ln *line) asks(at time.Time) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	if ln.silent == 0 {
		ln.silent = monoTimeOf(at)
	}
}

// note keeps what the leader was told.
func (ln *line) note(reason error) {
	ln.lines.mu.Lock()
	defer ln.lines.mu.Unlock()
	ln.reason, ln.past, ln.silent = reason, nil, 0
}

// unheard reports whether the server was asked before begun, and has answered nobody since: what
// the leader was told earlier, that others have the lock, says nothing to a caller that has come
// after that. It needs the mutex of lines.
//
// Where many leaders come and go, each may have left too early for its answer. Then a server
// that is well is silent, too, but hardly for as long.
func (ln *line) unheard(begun time.Time) bool {
	return ln.silent != 0 && ln.silent.sub(begun) < 0 && -ln.silent.sub(time.Now()) > ln.mutex.attempt()/4
}

// stillLocked is reason, a *LockedError that the leader goes by, as far as it is a reason for the
// caller that leads now and has wanted the lock since begun.
func (ln *line) stillLocked(reason error, begun time.Time) error {
	ln.lines.mu.Lock()
	unheard, t := ln.unheard(begun), ln.inTheWay()
	ln.lines.mu.Unlock()
	switch {
	case !unheard:
		return reason
	case t != nil:
		return t.lockedSince(begun)
	}
	return nil
}

// callLeader makes the first in line its leader. It ends the line if there is none, unless it
// holds a tenure. It needs the mutex of lines, as do the methods below.
func (ln *line) callLeader() {
	switch ln.led = ln.first != nil; {
	case ln.led:
		ln.pop().called <- struct{}{}
	case ln.tenure == nil:
		ln.lines.end(ln)
	default:
		ln.silent = 0 // nobody asks
	}
}

func (ln *line) turnAway(err error) {
	for ln.first != nil {
		w := ln.pop()
		w.err = err
		w.called <- struct{}{}
	}
}
