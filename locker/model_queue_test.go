package locker

import "slices"

func (m *model) place(id string) *modelPlace {
	for _, p := range m.queue {
		if p.claim.name == id {
			return p
		}
	}
	return nil
}

func (m *model) leave(id string) {
	m.queue = slices.DeleteFunc(m.queue, func(p *modelPlace) bool { return p.claim.name == id })
}

// enqueue gives c a place, or keeps the one it has for longer. An upgrader comes before
// all others.
func (m *model) enqueue(c *claim, want wanted, upgrader bool) *modelPlace {
	p := m.place(c.name)
	if p == nil {
		m.seq++
		p = &modelPlace{claim: c, upgrader: upgrader, seq: m.seq}
		if upgrader {
			m.queue = slices.Insert(m.queue, 0, p)
		} else {
			m.queue = append(m.queue, p)
		}
	}
	p.until, p.channel = max(p.until, m.now+want.life), want.channel
	return p
}

// readerWaitsToWrite tells whether another owner that reads waits to write; where c
// waits itself, before it.
func (m *model) readerWaitsToWrite(c *claim, waits bool) bool {
	for _, p := range m.queue {
		if waits && p.claim.name == c.name {
			return false
		}
		if p.claim.mode == modeWrite && p.claim.owner != c.owner && m.owns(p.claim, modeRead) {
			return true
		}
	}
	return false
}

// serve grants the lock to those whose turn it is. A request about mutexes can grant
// it to a mutex only, and one about other locks to others; whose turn it is then is
// told to ask. Who makes the request itself needs no message, and whose client hears
// nothing just now is passed over, once. It returns who is first after them.
//
// After a portion the next one that can hear it is told to ask.
func (m *model) serve(asking *claim, mutexes bool) (first *modelPlace) {
	taken := 0
	for _, p := range slices.Clone(m.queue) {
		c := p.claim
		asks := (c.mode == modeMutex) != mutexes
		tells := p.channel != "" && c != asking
		switch {
		case m.another(c):
			return p
		case !asks && len(m.inTheWay(c)) > 0:
			return p
		case tells && m.counted && !p.passed && !slices.Contains(channelsHeard, p.channel):
			p.passed = true
		case asks:
			m.publish(p, modelMessage{channel: p.channel, claim: c})
			return p
		case taken >= portionTested && c != asking && (p.channel == "" || !m.counted || slices.Contains(channelsHeard, p.channel)):
			m.publish(p, modelMessage{channel: p.channel, claim: c})
			return p
		default:
			taken++
			m.grant(p, tells)
		}
	}
	return nil
}

// grant gives the lock to p for no longer than its reservation lasts.
func (m *model) grant(p *modelPlace, tells bool) {
	c := p.claim
	h := m.hold(c.name)
	if h == nil {
		h = &modelHold{id: c.name, label: c.name, mode: c.mode, owner: c.owner, token: m.draw(c, c.mode, nil)}
		m.begin(h, m.now+min(c.ttl, p.until-m.now), c.ttl)
	}
	if tells {
		m.publish(p, modelMessage{channel: p.channel, claim: c, grant: true, seq: p.seq, token: h.token})
	}
	m.leave(c.name)
}

// publish notes the message if anybody hears it.
func (m *model) publish(p *modelPlace, message modelMessage) {
	if slices.Contains(channelsHeard, p.channel) {
		m.published = append(m.published, message)
	}
}
