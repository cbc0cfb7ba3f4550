package locker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// A tenure is what the server knows as one hold of a lock: it has one id, one token
// and one TTL, is renewed as one and released once. Here it is held by one [Lease] or,
// where its owner has re-entered the lock, by several. It is over with the last of
// them, and from then on nobody can join it.
//
// A goroutine that holds its mu may take that of its rest, of a line or of the hub, and those of
// the client and of its holdings, watchdog and observers, and what these take. A goroutine that
// holds one of those takes the mu of no tenure.
type tenure struct {
	client *Client
	mutex  *Mutex // that took it; all handles have its keys
	id     string
	token  Token
	owner  string // who may re-enter it; "" if nobody may
	job    job
	// remember is for how long the server has to know that the id is over.
	remember time.Duration
	// reservation is where it waited, until it is released; "" if it did not. A request that arrives
	// late may have given it a place once more, as may nodes of a quorum that have not given the lock.
	reservation string
	rest        *rest // the nodes of a quorum that have more to be asked or to answer; nil if none has
	line        *line // along which it may be passed on; nil if it may not
	// inner and outer are its neighbours in the client's holdings, whose mu guards them.
	inner, outer *tenure

	mu        sync.Mutex  // guards what follows, and the handles' own state
	released  bool        // or detached; outcome is known
	unsure    bool        // a release was sent and not answered
	releasing bool        // a release is in progress
	inTime    bool        // the lease was in force when that began
	cleaning  atomic.Bool // a cleanup makes its last request
	held      *Lease      // the first of the handles that hold it; nil once it is over
	term      term
	lasts     time.Duration // the TTL that the term is of
	// lapse is when the server has certainly let go, if no request is in flight.
	lapse   monoTime
	renewAt monoTime // zero while a renewal is asked for
	lastErr error    // of the last renewal, if it failed

	renewing  bool          // a renewal is in flight
	may       nodeSet       // nodes of a quorum that may have given it, if rest is nil
	extending uint32        // requests of Extend in flight
	renewed   chan struct{} // closed when all these have ended, if somebody waits for that
	asked     time.Duration // the TTL that the renewal asks for
	begun     monoTime
	heardAt   monoTime // when the server has last spoken of it, after it was begun; for its line
	turn      *turn    // in which it is passed on; nil before anybody has stood in line for it

	gone chan struct{} // closed when the release ends, if somebody waits for that
	// outcome is what Unlock of any handle says. Before the release it is the
	// server's word that has ended the tenure, if that did.
	outcome error
}

// A grant is the server's answer to the attempt that took a lock.
type grant struct {
	id    string
	token Token
	owner string // "" unless the lock has one
	sent  moment
	ttl   time.Duration // what the request sent then has armed
	// remember is for how long the server has to know, after the end, that the id is
	// over: a request that takes the lock may still be on its way.
	remember    time.Duration
	reservation string  // of one who waited
	rest        *rest   // as of a tenure
	may         nodeSet // the nodes of a quorum that may have given it
}

// newLease begins a tenure of m with its first handle. Its time runs already; it
// is for the caller to [tenure.watch] it.
func newLease(m *Mutex, g grant) *Lease {
	both := &struct {
		tenure tenure
		lease  Lease
	}{tenure: tenure{
		client: m.client, mutex: m, id: g.id, token: g.token, owner: g.owner,
		remember: g.remember, reservation: g.reservation, rest: g.rest, may: g.may,
	}}
	t, l := &both.tenure, &both.lease
	t.job.task = t
	now := now()
	sent := g.sent.asOf(now)
	t.admit(l, m, sent, g.ttl)
	t.armed(now, sent, g.ttl)
	t.mayArm(now.at, m.ttl) // its requests asked for as much
	t.renewAt = monoTimeOf(firstRenewalTime(sent.at, g.ttl))
	t.begun = monoTimeOf(now.at)
	return l
}

// watch gives the tenure into the watchdog's care and opens it to re-entry, unless it
// is to stay apart. It returns false if the watchdog is closed.
func (t *tenure) watch(apart bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, early := t.next()
	if !t.client.watchdog.add(&t.job, at, early) {
		return false
	}
	if t.rest.begin(t) {
		t.plan()
	}
	if !apart {
		t.client.holdings.add(t)
	}
	if t.line != nil && t.line.hold(t) {
		t.keepAsking(time.Now())
	}
	return true
}

// admit makes l a handle of the tenure, as m asks for it, from now on. If it is not
// to be renewed it is good for ttl from that moment. It needs t.mu.
func (t *tenure) admit(l *Lease, m *Mutex, from moment, ttl time.Duration) {
	l.tenure, l.mutex, l.token = t, m, t.token
	if m.cfg.maxHold > 0 || !m.cfg.renew {
		l.bound = newBound(m, from, ttl)
	}
	l.next, t.held = t.held, l
}

// check ends what is over by time: the tenure, or some of its handles. It needs t.mu.
func (t *tenure) check(now moment) {
	slept := t.catchUp(now)
	if t.end(func(l *Lease) error { return l.overdue(now) }) {
		t.vacate()
	}
	if t.term.leftAt(now) <= 0 {
		t.lose(nil)
	}
	if slept {
		t.plan()
	}
}

// catchUp brings the times that are the server's to the present, and tells whether it had to,
// since the machine was suspended. It needs t.mu.
func (t *tenure) catchUp(now moment) (slept bool) {
	for l := t.held; l != nil; l = l.next {
		if l.bound != nil {
			l.bound.catchUp(now)
		}
	}
	if !t.term.behind(now) { // nearly always
		return false
	}
	before := t.term
	t.lapse = monoTimeOf(t.lapseAt(now))
	t.term = before.asOf(now)
	if t.renewAt != 0 {
		t.renewAt += monoTime(before.asleep - t.term.asleep)
	}
	return true
}

// lose ends all handles at once. It needs t.mu.
func (t *tenure) lose(reason error) {
	if t.held == nil {
		return
	}
	if errors.Is(reason, ErrNotHeld) {
		t.outcome = reason
	}
	loss := t.loss(reason)
	t.end(func(*Lease) error { return loss })
	t.vacate()
}

// holder returns one of the handles that hold the tenure, nil if it is over.
func (t *tenure) holder() *Lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check(exactNow())
	return t.held
}

// lostUnnoticed ends a tenure of which the server turns out to know nothing, and returns its loss;
// nil if it was over.
func (t *tenure) lostUnnoticed() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.check(exactNow())
	outer := t.held
	if outer == nil {
		return nil // It has been given up, or had run out, as is known.
	}
	t.lose(ErrAbsent)
	t.plan()
	return outer.cause
}

// vacate lets those who stand in line ask the server again. It needs t.mu.
func (t *tenure) vacate() {
	if t.line == nil {
		return
	}
	if t.turn != nil && t.turn.timer != nil {
		t.turn.timer.Stop()
	}
	if t.released || t.outcome != nil {
		t.heardAt = monoTimeOf(time.Now())
	}
	led := t.line.vacate(t, t.turn != nil && t.turn.others)
	if led && t.released && t.outcome == nil { // else the lock is not known to be free
		t.client.hub.released(t.mutex)
	}
}

func (t *tenure) loss(reason error) *LostError {
	return &LostError{Name: t.mutex.name, Reason: reason, LastErr: t.lastErr}
}

// end ends the handles for which cause gives an error, and tells whether the tenure is
// over by that. It needs t.mu.
func (t *tenure) end(cause func(*Lease) error) (over bool) {
	if t.held == nil {
		return false
	}
	for p := &t.held; *p != nil; {
		l := *p
		if err := cause(l); err != nil {
			*p, l.next = l.next, nil
			l.end(err)
		} else {
			p = &l.next
		}
	}
	if t.held == nil {
		t.client.holdings.remove(t)
	}
	return t.held == nil
}

// armed moves the deadline after a request that armed ttl was answered. It never
// moves back. It needs t.mu.
//
// What it goes by must have been brought to the present, and so must sent.
func (t *tenure) armed(now, sent moment, ttl time.Duration) {
	if arms := newTerm(sent, ttl); arms.deadline.After(t.term.deadline) {
		t.term, t.lasts = arms, ttl
	}
	t.mayArm(now.at, ttl)
	t.lastErr = nil
}

// lapseAt is lapse as it stands at that moment. What is in flight may be executed only after the machine
// was suspended, though not after the server has let go. It needs t.mu.
func (t *tenure) lapseAt(now moment) time.Time {
	lapse := t.lapse.time()
	past := moment{lapse, t.term.asleep}.asOf(now).at
	if t.renewing {
		past = past.Add(t.asked)
	}
	if t.extending == 0 && past.Before(lapse) {
		return past
	}
	return lapse
}

// mayArm notes that a request may arm ttl on the server until then. It needs t.mu.
func (t *tenure) mayArm(then time.Time, ttl time.Duration) {
	if lapse := then.Add(ttl); !t.lapse.after(lapse) {
		t.lapse = monoTimeOf(lapse)
	}
}

// request makes one request about the tenure, within the given time.
func (t *tenure) request(ctx context.Context, c call, within time.Duration) error {
	bounded := t.client.otherContexts.get(ctx, min(t.mutex.attempt(), within))
	v, err := t.client.deployment.run(bounded, c)
	bounded.release(err)
	switch {
	case err == nil:
		return heldReply(v)
	case ctx.Err() == nil:
		return late(err)
	}
	return err
}
