package locker

import (
	"slices"
	"time"
)

// A model says what one lock has to do, in plain Go. It is written from the
// invariants of docs/guarantees.md and what else docs/ promises, and not from the scripts: what is over by time is
// simply not there any more, and ids, tokens and places are counted 1, 2, 3.
//
// Its clock stands still during a request.
type model struct {
	now     time.Duration // since the history began
	counted bool          // the count of PUBLISH tells whether anybody listens

	kind  string        // of the record, "" where the key is free
	until time.Duration // when the record expires if nothing happens
	holds []*modelHold
	queue []*modelPlace
	over  map[string]bool // ids that are remembered as given up
	drawn int             // the last fencing token
	seq   int             // the last place in the queue

	published []modelMessage // by the request at hand
}

type modelHold struct {
	id      string
	label   string // who shows as the holder: it differs from the id after an unattach
	mode    mode
	owner   string
	until   time.Duration
	longest time.Duration // TTL that it was ever given
	token   int
}

type modelPlace struct {
	claim    *claim
	until    time.Duration
	channel  string
	passed   bool
	upgrader bool
	seq      int
}

type modelMessage struct {
	channel string
	claim   *claim // whose reservation it names
	grant   bool   // else it only asks to look
	seq     int
	token   int
}

// A finding is the answer to a request, without its details.
type finding string

const (
	isHeld     finding = "held"
	isLocked   finding = "locked"
	isVoid     finding = "given up before"
	isDeadlock finding = "deadlock"
	isForeign  finding = "foreign: "
	isDone     finding = "done"
	isAbsent   finding = "absent"
	isTaken    finding = "somebody else's"
	isBroken   finding = "broken"
	isPassed   finding = "passed on"
)

// A modelReply is what a request must be answered.
type modelReply struct {
	finding finding
	token   int
	seq     int  // the place in the queue, 0 for none
	waited  bool // others wait
	// holders are the holds in the way, of which the reply names one; or, of a
	// lock that was broken, all.
	holders []*modelHold
}

// advance lets time pass.
func (m *model) advance(now time.Duration) {
	m.now = now
	m.published = nil
	m.holds = slices.DeleteFunc(m.holds, func(h *modelHold) bool { return h.until <= now })
	m.queue = slices.DeleteFunc(m.queue, func(p *modelPlace) bool { return p.until <= now })
	if m.until <= now {
		m.kind = ""
	}
}

func (m *model) hold(id string) *modelHold {
	for _, h := range m.holds {
		if h.id == id {
			return h
		}
	}
	return nil
}

func (h *modelHold) excludes(c *claim) bool {
	if h.mode == modeMutex || c.mode == modeMutex {
		return true
	}
	return h.owner != c.owner && (h.mode != modeRead || c.mode != modeRead)
}

// inTheWay returns the holds that keep c from having the lock.
func (m *model) inTheWay(c *claim) []*modelHold {
	var some []*modelHold
	for _, h := range m.holds {
		if h.excludes(c) {
			some = append(some, h)
		}
	}
	return some
}

// another tells that the record is that of another kind of lock, which somebody holds. If
// nobody does it is there no longer than it takes to find out.
func (m *model) another(c *claim) bool {
	if m.kind == kindOf(c.mode) {
		return false
	}
	if len(m.holds) == 0 {
		m.kind = ""
	}
	return m.kind != ""
}

// owns tells whether c's owner has a hold already; in that mode, if one is given.
func (m *model) owns(c *claim, modes ...mode) bool {
	return c.mode.owned() && slices.ContainsFunc(m.holds, func(h *modelHold) bool {
		return h.owner == c.owner && (len(modes) == 0 || slices.Contains(modes, h.mode))
	})
}

// begin adds a hold to the record.
func (m *model) begin(h *modelHold, until, ttl time.Duration) {
	h.longest = max(h.longest, ttl)
	m.holds = append(m.holds, h)
	if m.kind == "" || m.kind == kindOf(modeMutex) {
		m.until = 0
	}
	m.kind = kindOf(h.mode)
	m.lengthen(h, until, ttl)
}

func (m *model) lengthen(h *modelHold, until, ttl time.Duration) {
	h.until, h.longest = max(h.until, until), max(h.longest, ttl)
	m.until = max(m.until, h.until)
}

// end removes a hold. The record goes with the last one.
func (m *model) end(h *modelHold) {
	m.holds = slices.DeleteFunc(m.holds, func(o *modelHold) bool { return o == h })
	if len(m.holds) == 0 {
		m.kind = ""
	}
}

// draw returns the fencing token of a new hold: readers get the writer's before
// them, a re-entry within a lease keeps that lease's.
func (m *model) draw(c *claim, mode mode, within *modelHold) int {
	switch {
	case !c.fenced:
		return 0
	case mode == modeRead:
		return m.drawn
	case within != nil && within.mode != modeRead && within.owner == c.owner && within.token != 0:
		return within.token
	}
	m.drawn++
	return m.drawn
}

func (m *model) take(c *claim) *modelHold {
	var within *modelHold
	if c.within != nil {
		within = m.hold(c.within.name)
	}
	h := &modelHold{id: c.name, label: c.name, mode: c.mode, owner: c.owner, token: m.draw(c, c.mode, within)}
	m.begin(h, m.now+c.ttl, c.ttl)
	return h
}
