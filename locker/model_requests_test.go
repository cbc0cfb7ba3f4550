package locker

import (
	"slices"
	"time"
)

// set is the native SET NX.
func (m *model) set(c *claim) modelReply {
	if m.kind != "" {
		return modelReply{finding: isLocked}
	}
	m.take(c)
	return modelReply{finding: isHeld}
}

func (m *model) ask(c *claim, want wanted) modelReply {
	if m.another(c) {
		return modelReply{finding: isForeign + finding(m.kind)}
	}
	waits := want.life > 0
	held := func(h *modelHold) modelReply {
		m.lengthen(h, m.now+c.ttl, c.ttl)
		if waits {
			m.leave(c.name)
		}
		return modelReply{finding: isHeld, token: h.token}
	}
	if h := m.hold(c.name); h != nil {
		return held(h)
	} else if m.over[c.name] {
		return modelReply{finding: isVoid}
	}
	blocked := len(m.inTheWay(c)) > 0
	if !blocked && (!c.alone && m.owns(c) || len(m.queue) == 0) {
		return held(m.take(c))
	}
	upgrade := blocked && c.mode == modeWrite && !c.alone && m.owns(c, modeRead)
	if upgrade && m.readerWaitsToWrite(c, waits) {
		return modelReply{finding: isDeadlock}
	}
	var seq int
	if waits {
		seq = m.enqueue(c, want, upgrade).seq
	}
	// A lease may have run out unnoticed.
	first := m.serve(c, c.mode == modeMutex)
	if h := m.hold(c.name); h != nil {
		return held(h)
	}
	if m.another(c) {
		return modelReply{finding: isForeign + finding(m.kind)}
	}
	// Nobody else wants it, or whoever waits was passed over.
	if m.kind == "" && c.mode == modeMutex || len(m.inTheWay(c)) == 0 && first == nil {
		return held(m.take(c))
	}
	reply := modelReply{finding: isLocked, seq: seq, holders: m.inTheWay(c)}
	if len(reply.holders) == 0 {
		reply.holders = slices.Clone(m.holds)
	}
	return reply
}

func (m *model) renew(c *claim, ttl time.Duration) modelReply {
	h := m.hold(c.name)
	if h == nil {
		return modelReply{finding: m.lost(c)}
	}
	m.lengthen(h, m.now+ttl, ttl)
	return modelReply{finding: isDone}
}

// turnOver reserves tokens for those to whom c's client passes the lock on, if it is fenced.
// The reply has the last of them.
func (m *model) turnOver(c *claim) modelReply {
	if m.hold(c.name) == nil {
		return modelReply{finding: m.lost(c)}
	}
	return modelReply{finding: isPassed, token: m.draw(c, c.mode, nil), waited: len(m.queue) > 0}
}

// lost tells what has become of a lock that c does not hold.
func (m *model) lost(c *claim) finding {
	mutex := kindOf(modeMutex)
	if len(m.holds) > 0 || c.mode == modeMutex && m.kind != "" && m.kind != mutex {
		return isTaken
	}
	return isAbsent
}

func (m *model) giveUp(c *claim, remember time.Duration, queued bool) modelReply {
	reply := m.release(c, remember, queued)
	if c.mode == modeMutex {
		reply.finding = isDone
	}
	return reply
}

func (m *model) release(c *claim, remember time.Duration, queued bool) modelReply {
	if remember > 0 {
		m.over[c.name] = true
	}
	if queued {
		m.leave(c.name)
	}
	mutex := c.mode == modeMutex
	h := m.hold(c.name)
	reply := modelReply{finding: isDone}
	switch {
	case h != nil:
		m.end(h)
	case m.kind != "" && mutex != (m.kind == kindOf(modeMutex)), m.kind != "" && mutex:
		return modelReply{finding: isTaken}
	default:
		reply.finding = m.lost(c)
		if len(m.holds) == 0 {
			m.kind = ""
		}
	}
	m.serve(nil, mutex)
	return reply
}

// attach takes up what was detached as one of ids: it becomes c's.
func (m *model) attach(c *claim, ids ...*claim) modelReply {
	if m.kind == "" {
		return modelReply{finding: isAbsent}
	} else if m.another(c) {
		return modelReply{finding: isForeign + finding(m.kind)}
	}
	if h := m.hold(c.name); h != nil {
		m.lengthen(h, m.now+c.ttl, c.ttl)
		return modelReply{finding: isHeld, token: h.token}
	}
	for _, old := range ids {
		if old == nil {
			continue
		}
		h := m.hold(old.name)
		if h == nil {
			continue
		}
		if h.mode != c.mode || m.over[c.name] {
			return modelReply{finding: isTaken}
		}
		fenced := *c
		fenced.fenced = c.fenced || h.token != 0
		token := m.draw(&fenced, h.mode, nil)
		m.begin(&modelHold{id: c.name, label: c.name, mode: h.mode, owner: h.owner, longest: h.longest, token: token}, m.now+c.ttl, c.ttl)
		m.end(h)
		m.over[old.name] = true
		return modelReply{finding: isHeld, token: token}
	}
	return modelReply{finding: m.lost(c)}
}

// unattach gives back what c may have taken up from old.
func (m *model) unattach(c, old *claim) modelReply {
	m.over[c.name] = true
	if h := m.hold(c.name); h != nil && (h.mode == modeMutex) == (c.mode == modeMutex) {
		h.id = old.name
		m.lengthen(h, m.now+h.longest, h.longest)
	}
	return modelReply{finding: isDone}
}

// force ends all holds. Who waits first is told to ask.
func (m *model) force() modelReply {
	if m.kind == "" {
		return modelReply{finding: isAbsent}
	}
	reply := modelReply{finding: isBroken, holders: m.holds}
	if len(m.holds) == 0 {
		reply.finding = isAbsent
	}
	m.holds, m.kind = nil, ""
	if len(m.queue) > 0 {
		p := m.queue[0]
		m.publish(p, modelMessage{channel: p.channel, claim: p.claim})
	}
	return reply
}
