package locker

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A turn bounds how a tenure is passed along a [line]. Once others are known to wait at
// the server, it is over after turnTime or turnPasses. While it is not known, the
// server is asked; that does not hold the passing up.
type turn struct {
	passes int

	asking chan struct{} // closed when the request in flight ends; nil if none is
	asked  time.Time     // when the last one was made
	heard  time.Time     // until when the last answer is good
	others bool          // wait, said the answer
	failed error         // why there was none
	timer  *time.Timer   // fires when the turn may be over; nil if it never was

	// used is the last fencing token that was given out, and reserved the last one
	// that may be.
	used, reserved Token
}

const (
	turnTime   = 2 * time.Millisecond
	turnPasses = 1000
	// askEvery is how often the server is asked while the lock is passed on.
	askEvery = 2 * time.Millisecond
	// hearTime is how long an answer is good for. A holder that keeps the lock for
	// longer gives it back to the server, which then knows who has waited longest.
	hearTime = 10 * time.Millisecond
	// tokensAhead is by how many µs reserved tokens may run ahead of the server's clock:
	// enough of them for a turn. A server that has lost the last token grants tokens that run
	// further ahead at first, so that later ones are larger all the same: see next_token in
	// base.lua.
	tokensAhead = 2000
	// fewTokens is how many are left when more are asked for.
	fewTokens = 64
)

// pass gives the lock on to who stands next in line, in place of l, which is over then. The
// server needs not know. It returns false where nobody stands there, or the lock has to
// be given back.
func (t *tenure) pass(l *Lease) (passed bool) {
	if t.line == nil {
		return false
	}
	t.mu.Lock()
	if l.passed || t.held != l {
		defer t.mu.Unlock()
		return l.passed
	}
	present := now()
	if t.check(present); t.held != l || !t.passable(present.at) {
		t.mu.Unlock()
		return false
	}
	w := t.line.next(t)
	if w == nil {
		t.mu.Unlock()
		return false
	}
	t.held, l.passed = nil, true
	l.end(ErrReleased)
	heir := &Lease{route: handedOn}
	t.admit(heir, w.mutex, moment{}, 0)
	turn := t.inTurn()
	turn.passes++
	if heir.token = 0; turn.used < turn.reserved {
		turn.used++
		heir.token = turn.used
	}
	if heir.bound != nil {
		t.plan()
	}
	t.keepAsking(present.at)
	t.mu.Unlock()
	w.lease = heir
	w.called <- struct{}{}
	return true
}

// inTurn returns the turn, which begins with the first who stands in line. It needs t.mu.
func (t *tenure) inTurn() *turn {
	if t.turn == nil {
		t.turn = &turn{used: t.token, reserved: t.token}
	}
	return t.turn
}

// passable tells whether another goroutine may have the lock now, without the server. It
// needs t.mu.
func (t *tenure) passable(now time.Time) bool {
	if t.term.deadline.Sub(now) < t.lasts/3 {
		return false // the renewal is late
	}
	if t.lapse.sub(now) > t.mutex.ttl+t.mutex.attempt() {
		return false // it was extended, and would outlive the next holder by more than its TTL
	}
	since := -t.begun.sub(now)
	if t.turn == nil {
		return since < turnTime
	}
	if since < turnTime && t.turn.passes < turnPasses {
		return true
	}
	if t.turn.heard.IsZero() && t.turn.asking != nil {
		return since < t.lasts/10 // the server is far away
	}
	return !t.turn.others && now.Before(t.turn.heard)
}

// keepAsking asks the server from time to time whether others wait. It needs t.mu.
func (t *tenure) keepAsking(now time.Time) {
	turn := t.inTurn()
	short := t.mutex.cfg.fenced && turn.used+fewTokens > turn.reserved
	if short || !turn.others && now.Sub(turn.asked) >= askEvery {
		t.ask(now)
	}
}

// lineForms is called when somebody comes to stand in line where nobody stood.
func (t *tenure) lineForms() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held != nil {
		now := time.Now()
		t.keepAsking(now)
		t.watchTurn(now)
	}
}

// watchTurn has the line asked to precede the end of the tenure once it is not passed on any
// more. The end of a request that is in flight does so, too. It needs t.mu.
func (t *tenure) watchTurn(now time.Time) {
	turn := t.turn
	if turn.asking != nil {
		return
	}
	over := t.begun.time().Add(turnTime)
	if !turn.others && turn.heard.After(over) {
		over = turn.heard
	}
	if left := max(over.Sub(now), soonest); turn.timer == nil {
		turn.timer = time.AfterFunc(left, t.turnEnds)
	} else {
		turn.timer.Reset(left)
	}
}

// turnEnds is called when the turn may be over.
func (t *tenure) turnEnds() {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch now := time.Now(); {
	case t.held == nil || t.turn.asking != nil || !t.line.waits(t):
	case t.passable(now):
		t.watchTurn(now)
	default:
		t.line.precede(t)
	}
}

// ask puts the request in flight, unless one is, and returns what is closed at its end;
// nil if the client is closing. It needs t.mu.
func (t *tenure) ask(now time.Time) <-chan struct{} {
	turn := t.inTurn()
	if turn.asking != nil {
		return turn.asking
	}
	if t.client.enter() != nil {
		return nil
	}
	turn.asking, turn.asked = make(chan struct{}), now
	go t.inquire(turnCall(t.mutex, t.id, turn.used))
	return turn.asking
}

// inquire makes the request.
func (t *tenure) inquire(c call) {
	defer t.client.leave()
	ctx, cancel := context.WithTimeout(t.client.ctx, t.mutex.attempt())
	defer cancel()
	sent := time.Now()
	v, err := t.client.deployment.run(ctx, c)
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.turn.asking)
	t.turn.asking = nil
	var others bool
	var reserved Token
	if err == nil {
		others, reserved, err = turnReply(v)
	}
	if t.turn.failed = err; err == nil {
		heard := time.Now()
		t.heardAt, t.turn.others, t.turn.heard = monoTimeOf(heard), others, heard.Add(hearTime+heard.Sub(sent))
		// What an earlier answer has reserved beyond that is another's to draw: the server has lost it since.
		t.turn.reserved = reserved
	} else if errors.Is(err, ErrNotHeld) {
		t.lose(err)
		t.plan()
	}
	if t.held != nil {
		t.watchTurn(time.Now())
	}
}

func turnCall(m *Mutex, id string, used Token) call {
	return turnScript.call([]string{m.keys.record, m.keys.fence, m.keys.queue},
		[]string{id, keepFence(m.cfg.fenced, m.ttl), used.String(), Token(tokensAhead).String()})
}

func turnReply(v driver.Value) (others bool, reserved Token, err error) {
	status, rest, ok := splitReply(v)
	switch {
	case !ok:
	case status == 1 && len(rest) == 2:
		reserved, err = readToken(rest[1])
		return rest[0] == int64(1), reserved, err
	case status == 0:
		return false, 0, ErrAbsent
	case status == -1:
		return false, 0, ErrTaken
	}
	return false, 0, oddReply("turn", v)
}

// awaitToken waits until the server has reserved a fencing token for l, which was passed on
// without one.
func (l *Lease) awaitToken(ctx context.Context) error {
	for l.token == 0 {
		if err := l.tenure.reserve(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// reserve gives l a token, or asks for some.
func (t *tenure) reserve(ctx context.Context, l *Lease) error {
	t.mu.Lock()
	if t.check(now()); l.cause != nil {
		defer t.mu.Unlock()
		return l.cause
	}
	if turn := t.turn; turn.used < turn.reserved {
		defer t.mu.Unlock()
		turn.used++
		l.token = turn.used
		return nil
	}
	flight := t.ask(time.Now())
	t.mu.Unlock()
	if flight == nil {
		return ErrClosed
	}
	select {
	case <-flight:
	case <-ctx.Done():
		return ctx.Err()
	}
	t.mu.Lock()
	err := t.turn.failed
	t.mu.Unlock()
	switch {
	case err == nil, errors.Is(err, ErrNotHeld):
		return nil
	case !transient(err):
		return requestError(t.mutex.name, err)
	}
	return t.client.sleep(ctx, retryPause(t.mutex.ttl))
}

// heardSince tells whether the server has said anything of the tenure since then. It needs t.mu.
func (t *tenure) heardSince(then time.Time) bool {
	return t.begun.after(then) || t.heardAt.after(then)
}

// lockedSince says that the tenure has been in the way of a caller that has wanted the lock
// since begun. It returns nil where the tenure is over, and the server has said nothing since
// begun.
func (t *tenure) lockedSince(begun time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held == nil && !t.heardSince(begun) {
		return nil
	}
	lease, left := fingerprint(t.id), time.Duration(0)
	if !t.released {
		now := now()
		left = max(t.lapseAt(now).Sub(now.at), 0)
	}
	return &LockedError{Name: t.mutex.name, by: lease, Holder: Holder{
		Mode: t.mutex.mode.public(), Holds: 1, Token: t.token, Label: t.client.cfg.label, Metadata: t.mutex.cfg.metadata,
		Remaining: left, leases: lease,
	}}
}
