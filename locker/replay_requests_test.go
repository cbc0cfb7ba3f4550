package locker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A serverReply is what the server has replied.
type serverReply struct {
	finding finding
	token   Token
	owner   string
	seq     string
	waited  bool
	holders []Holder
}

func (a serverReply) String() string {
	s := string(a.finding)
	if a.finding == isHeld && a.token != 0 {
		s += fmt.Sprintf(", token %d", a.token)
	}
	for _, h := range a.holders {
		s += fmt.Sprintf(" by %s for %v", h.Metadata, h.Remaining)
	}
	if a.seq != "" {
		s += ", place " + a.seq
	}
	return s
}

// expect asks the model.
func (r *replay) expect(s *sending) modelReply {
	c := s.claim
	switch s.verb {
	case ask:
		return r.model.ask(c, s.want)
	case set:
		return r.model.set(c)
	case renew:
		return r.model.renew(c, s.ttl)
	case end:
		if s.release {
			return r.model.release(c, s.remember, s.queued)
		}
		return r.model.giveUp(c, s.remember, s.queued)
	case attach:
		return r.model.attach(c, c.from, c.unsure)
	case unattach:
		return r.model.unattach(c, c.from)
	case turnOver:
		return r.model.turnOver(c)
	}
	return r.model.force()
}

// send asks the server.
func (r *replay) send(ctx context.Context, s *sending) (serverReply, error) {
	if s.verb == force {
		holders, err := r.client.ForceRelease(ctx, r.name)
		return answerOf(isBroken, serverReply{holders: holders}, err)
	}
	c, store := s.claim, r.client.store
	req := r.request(c)
	var a serverReply
	var err error
	switch s.verb {
	case ask:
		a.token, a.seq, err = store.acquire(ctx, req, r.place(c, s.want))
	case set:
		var ok bool
		if ok, err = store.set(ctx, req); !ok && err == nil {
			return serverReply{finding: isLocked}, nil
		}
	case attach:
		unsure := ""
		if c.unsure != nil {
			unsure = c.unsure.id()
		}
		a.token, a.owner, err = store.attach(ctx, req, c.from.id(), unsure)
	case turnOver:
		m := &Mutex{mode: c.mode, keys: r.keys, ttl: c.ttl, cfg: &lockConfig{fenced: c.fenced}}
		v, err := store.link.run(ctx, turnCall(m, c.id(), 0))
		if err == nil {
			a.waited, a.token, err = turnReply(v)
		}
		return answerOf(isPassed, a, err)
	default:
		v, err := r.client.store.link.run(ctx, r.call(s, req))
		if err != nil {
			return serverReply{}, err
		}
		return answerOf(isDone, serverReply{}, heldReply(v))
	}
	return answerOf(isHeld, a, err)
}

func (r *replay) call(s *sending, req *request) call {
	c := s.claim
	m := &Mutex{mode: c.mode, keys: r.keys}
	switch {
	case s.verb == renew:
		return renewCall(m, c.id(), s.ttl, s.fenced, 0)
	case s.verb == unattach:
		return unattachCall(req, c.from.id(), false)
	}
	reservation := ""
	if s.queued {
		reservation = c.reservation()
	}
	if s.release {
		return r.client.store.releaseCall(m, c.id(), reservation, s.remember)
	}
	return r.client.store.giveUpCall(req, reservation, s.remember)
}

func (r *replay) request(c *claim) *request {
	req := &request{
		name: r.name, keys: &r.keys, mode: c.mode, id: c.id(), owner: c.owner,
		tail: "|" + c.name, ttl: c.ttl, px: millis(c.ttl), fenced: c.fenced,
	}
	if c.alone {
		req.otherHold = noHold
	}
	if c.within != nil {
		req.otherHold = c.within.id()
	}
	return req
}

func (r *replay) place(c *claim, w wanted) place {
	if w.life == 0 {
		return place{}
	}
	return place{reservation: c.reservation(), channel: r.channel(w.channel), life: w.life}
}

// answerOf reads err as what the server said about the lock; or it is what went wrong.
func answerOf(ok finding, a serverReply, err error) (serverReply, error) {
	locked, isLockedError := errors.AsType[*LockedError](err)
	foreign, isForeignError := errors.AsType[*ForeignError](err)
	switch {
	case err == nil:
		a.finding = ok
	case isLockedError:
		a.finding, a.holders = isLocked, []Holder{locked.Holder}
	case isForeignError:
		a.finding = isForeign + finding(foreign.Type)
	case errors.Is(err, errVoid):
		a.finding = isVoid
	case errors.Is(err, ErrDeadlock):
		a.finding = isDeadlock
	case errors.Is(err, ErrAbsent):
		a.finding = isAbsent
	case errors.Is(err, ErrTaken):
		a.finding = isTaken
	default:
		return a, err
	}
	return a, nil
}

// about tells whether two times are the same, as exactly as they can be known: in real time the server
// rounds to whole milliseconds when it arms a lease, and when it tells what is left of it.
func (r *replay) about(a, b time.Duration) bool {
	most := r.slack
	if most > 0 {
		most += 2 * time.Millisecond
	}
	return (a - b).Abs() <= most
}
