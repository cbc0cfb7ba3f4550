package locker

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// An attempt is one call of Lock, TryLock or Attach, or a step of Upgrade, Downgrade or
// Detach. All its requests carry the same id (on a quorum, all requests of one round; see try),
// so that asking again after a lost reply cannot take the lock twice, nor mistake the lock for
// somebody else's.
type attempt struct {
	mutex    *Mutex
	client   *Client
	owner    Owner
	req      request
	attachID string // the detached lease to take up, if that is what it is about
	begun    time.Time
	apart    bool    // its lease is not to be re-entered
	outer    *tenure // the hold of its owner, known here, within which it is made; nil if none is known
	told     bool    // the server is told of outer
	brief    bool    // the first try need not say who holds the lock: another follows
	more     bool    // another try follows that may do better
	line     *line   // the line for which it asks; nil if it asks for its caller alone

	asked    bool  // a request was made
	scripted bool  // a request was made that can be remembered as given up
	splits   int   // tries in a row that took a part of a quorum, while others took the rest
	late     bool  // a request was not answered: it may have been applied, or may still be
	midway   bool  // the server has refused to go on with a script: it may have taken the lock
	taken    taken // by this try, at nodes of a quorum
	queued   bool  // an entry may stand in the queue
	granted  bool
	met      bool      // somebody who was in the way
	reason   error     // what the last try said
	slot     *slot     // where this waiter is woken, once it waits
	stand    standing  // its place in the queue, as of the last answer
	looked   time.Time // when the server has last looked for other holds of its owner

	placeless bool // the last answer gave it no place in the queue: nobody will tell it
}

func (m *Mutex) begin(ctx context.Context, owner Owner) (*attempt, error) {
	if m.problem != nil {
		return nil, m.problem
	}
	ended := ctx.Err() != nil // before the call is counted: with a nil ctx it panics
	if err := m.client.enter(); err != nil {
		return nil, err
	}
	a := &attempt{mutex: m, client: m.client, owner: owner, begun: time.Now()}
	a.req = request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: owner.name, tail: m.tail, ttl: m.ttl, px: m.px, fenced: m.cfg.fenced,
		unfair: m.cfg.unfair && m.mode == modeMutex}
	if ended {
		m.client.leave()
		return nil, a.waitError(ctx)
	}
	return a, nil
}

// end leaves nothing behind on the server.
func (a *attempt) end() {
	defer a.client.leave()
	if a.asked {
		a.client.holdings.asks(a.mutex, -1)
	}
	reservation := ""
	if a.slot != nil {
		a.client.hub.leave(a.slot)
		if a.queued {
			reservation = a.slot.reservation
		}
	}
	if !a.granted && (a.late || a.midway || reservation != "") {
		a.giveUp(reservation)
	}
}

// giveUp ends what the requests made so far may have taken, in the background.
func (a *attempt) giveUp(reservation string) {
	remember := a.remember()
	c, done := a.undo(reservation, remember)
	a.cleanUp(c, a.late || a.midway, remember, done)
}

// undo returns the call that ends what was done under the attempt's present id, and what to
// do when that is over.
func (a *attempt) undo(reservation string, remember time.Duration) (c call, done func()) {
	if a.attachID != "" {
		return unattachCall(&a.req, a.attachID, a.client.quorum != nil), a.client.attaching.unsure(a.attachID, a.req.id)
	}
	c = a.client.store.giveUpCall(&a.req, reservation, remember)
	a.taken.bid.end(c)
	a.taken.bid.settled(a.client.quorum)
	return c, func() {}
}

// cleanUp has c made in the background until it gets through, for as long as what was taken lasts,
// or a request may still arrive. frees tells that without it the lock may stay taken.
func (a *attempt) cleanUp(c call, frees bool, arrive time.Duration, done func()) {
	until := time.Now().Add(max(a.req.ttl, 10*time.Second, arrive))
	a.client.cleanUp(&cleanup{name: a.req.name, call: c, until: until, frees: frees, done: done})
}

// remember returns for how long the server has to know that the attempt's id is over.
func (a *attempt) remember() time.Duration {
	switch {
	case a.late:
		return voidLife(a.req.ttl)
	case a.scripted:
		return echoLife
	}
	return 0
}

// resends is how often a try repeats a request that got no reply.
const resends = 2

// try asks for the lock until there is an answer: the lease, or why not.
//
// On a quorum a round without success is given up as a whole, so that others can have
// the nodes that it has won; the next one has an id of its own. Within a round the id
// stays, so that the lock is not found taken by an earlier request of the same round.
// Where no other try follows, a try has several rounds if need be.
//
// A caller that waits will sleep until next after the try.
func (a *attempt) try(ctx context.Context, next time.Time) (*Lease, error) {
	for n := 1; ; n++ {
		lease, err := a.repeat(ctx, next)
		if err == nil || a.client.quorum == nil {
			return lease, err
		}
		a.countSplit(err)
		a.endRound(ctx)
		if a.more || n == mostRounds || !a.inVain(err) {
			return nil, err
		}
		a.reason = err
		if err := a.backOff(ctx); err != nil {
			return nil, err
		}
	}
}

// mostRounds is how many rounds a try has at most. Callers that split the vote keep
// further apart each time.
const mostRounds = 7

// inVain reports whether the round says nothing: each of several callers was told that
// others have the lock, or the detached lease, at some of the nodes, or what somebody had
// given up was still there.
func (a *attempt) inVain(err error) bool {
	if a.attachID != "" {
		return errors.Is(err, ErrTaken) && a.splits > 0
	}
	vote, ok := errors.AsType[*QuorumError](err)
	return ok && errors.Is(err, ErrLocked) && vote.undecided() && !vote.silent()
}

// repeat makes the same request until there is an answer, a few times at most.
func (a *attempt) repeat(ctx context.Context, next time.Time) (*Lease, error) {
	for n := 0; ; n++ {
		p := place{}
		if a.slot != nil {
			a.client.hub.refresh(a.slot)
			p = a.place(next) // as of now, since the hint that messages arrive may be gone
		}
		sent, before := now(), a.late
		if a.line != nil {
			a.line.asks(sent.at)
		}
		a.late = true // until it is answered, even where the driver or ctx panics
		g, err := a.request(ctx, p, sent)
		a.late = before
		if err == nil {
			var lease *Lease
			if lease, err = a.take(g); err != errTooLate {
				return lease, err
			}
			a.late = true // asking again arms it
		}
		if answered(err) {
			a.noteHealed(err)
			return nil, err
		}
		if driver.OutcomeOf(err) == driver.OutcomeUnknown {
			a.late = true
		}
		a.midway = a.midway || midway(err)
		if ctx.Err() != nil || a.client.ctx.Err() != nil {
			return nil, err
		}
		a.reason = requestError(a.req.name, err) // should the next one not end before ctx does
		if a.late {
			a.reason = outcomeOpen(a.reason)
		}
		if n == resends || driver.OutcomeOf(err) != driver.OutcomeUnknown || !transient(err) || lacksNewNodes(err) {
			return nil, a.reason
		}
		if n > 0 && a.client.sleep(ctx, retryPause(a.req.ttl)) != nil {
			return nil, a.reason
		}
	}
}

// noteHealed tells the observers that the request has found a record without a TTL.
func (a *attempt) noteHealed(err error) {
	if o := a.client.observers; o != nil {
		if locked, ok := errors.AsType[*LockedError](err); ok && locked.healed {
			o.healed(Healed{Name: a.req.name, For: locked.Holder.Remaining})
		}
	}
}

// answered reports whether err is an answer about the lock and not about a request.
func answered(err error) bool {
	for _, answer := range []error{ErrLocked, ErrForeign, ErrNotHeld, ErrDeadlock} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// request makes one request.
func (a *attempt) request(ctx context.Context, p place, sent moment) (g grant, err error) {
	bounded := a.client.acquireContexts.get(ctx, a.mutex.attempt())
	defer func(caller context.Context) {
		a.noteHolds(err)
		if bounded.release(err); err != nil && caller.Err() == nil {
			err = late(err)
		}
	}(ctx)
	ctx = bounded
	first := !a.asked
	if first {
		a.asked = true
		a.client.holdings.asks(a.mutex, 1)
	}
	a.tellHolds()
	g = grant{id: a.req.id, owner: a.owner.name, sent: sent, ttl: a.req.ttl}
	switch q := a.client.quorum; {
	case q != nil:
		return a.ask(ctx, q, p, g, first)
	case a.attachID != "":
		a.scripted = true
		err = a.client.attaching.try(a.attachID, func(unsure string) (err error) {
			g.token, g.owner, err = a.client.store.attach(ctx, &a.req, a.attachID, unsure)
			return err
		})
		return g, err
	case first && p.reservation == "" && !a.req.fenced && !a.req.mode.owned():
		ok, err := a.client.store.set(ctx, &a.req)
		if ok || err != nil {
			return g, err
		}
		a.reason = &LockedError{Name: a.req.name}
		if a.brief {
			return g, a.reason
		}
	}
	a.scripted = true
	var seq string
	before := a.queued
	a.queued = before || p.reservation != "" // even where the driver or ctx panics
	g.token, seq, err = a.client.store.acquire(ctx, &a.req, p)
	if driver.OutcomeOf(err) == driver.OutcomeNotSent {
		a.queued = before
	}
	if seq != "" {
		a.stand = standing{seq: seq, sent: sent, life: p.life}
	}
	a.placeless = seq == "" && errors.Is(err, ErrLocked)
	return g, err
}

// ask makes one request to a quorum. Even where the answer is no, some nodes may have
// given the lock.
func (a *attempt) ask(ctx context.Context, q *quorum, p place, g grant, first bool) (grant, error) {
	a.queued = a.queued || p.reservation != ""
	var err error
	if a.attachID != "" {
		a.scripted = true
		err = a.client.attaching.try(a.attachID, func(unsure string) (err error) {
			g.token, g.owner, g.rest, err = q.attach(ctx, &a.req, a.attachID, unsure, &a.taken)
			return err
		})
		if err == nil {
			g.rest.former = a.client.store.releaseCall(a.mutex, a.attachID, "", voidLife(a.req.ttl))
		}
		return g, err
	}
	var scripted bool
	g.token, g.rest, scripted, err = q.acquire(ctx, &a.req, p, try{first: first, brief: a.brief, more: a.more}, &a.taken)
	a.scripted = a.scripted || scripted
	return g, err
}

// countSplit notes whether the try has failed because others tried at the same time.
func (a *attempt) countSplit(err error) {
	vote, ok := errors.AsType[*QuorumError](err)
	if ok && a.taken.certain != 0 && vote.undecided() {
		a.splits++
	} else {
		a.splits = 0
	}
}

// endRound gives up what a failed try has taken at nodes of a quorum, so that it does
// not stand in the way of those who wait, this caller included. The next try has an id
// of its own. (Within a try the id is the same: a node whose reply was lost says
// "yours".)
func (a *attempt) endRound(ctx context.Context) {
	if a.taken.may == 0 {
		return
	}
	c, done := a.undo("", voidLife(a.req.ttl))
	a.client.join() // Close lets it become a cleanup, which it makes itself
	a.client.quorum.giveUp(ctx, c, a.taken, func(missed bool) {
		defer a.client.leave()
		if missed {
			a.cleanUp(c, true, 0, done) // the nodes that answer suffice, whatever arrives at the others
		} else {
			done()
		}
	})
	a.req.id, a.taken, a.late, a.midway = newID(), taken{}, false, false
}

// errTooLate is the error of a grant whose lease is over already: the reply took longer than the
// lease is good for.
var errTooLate = errors.New("the reply came after the lease's deadline")

// take turns a grant into a lease. It returns ErrClosed if the client is, or
// errTooLate.
func (a *attempt) take(g grant) (*Lease, error) {
	g.remember = a.remember()
	if a.queued {
		g.reservation = a.slot.reservation
	}
	g.may = a.taken.may
	lease := newLease(a.mutex, g)
	if a.met {
		lease.route = queued
	}
	lease.tenure.line = a.line
	if lease.tenure.term.leftAt(now()) <= 0 {
		return nil, errTooLate
	}
	if !lease.tenure.watch(a.apart) {
		a.late = true
		return nil, ErrClosed
	}
	a.granted = true
	if g.rest != nil && g.rest.nodes != 0 {
		a.client.quorum.rests.add(g.rest)
	}
	return lease, nil
}
