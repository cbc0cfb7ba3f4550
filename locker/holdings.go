package locker

import "sync"

// A holding names what an owner may re-enter.
type holding struct {
	record string // the lock's key
	owner  string
	mode   mode
}

// holdings are the tenures of a client that their owners may re-enter without
// asking the server. A tenure is in it from its grant until it is over; one without
// an owner never is.
//
// An owner that has re-entered a lock by asking the server has several tenures of a
// kind. It re-enters the first of them: one with the largest token, and of those the
// latest. When that one is over, the next is the first.
type holdings struct {
	mu      sync.Mutex
	tenures map[holding]*tenure // the first of each; the others follow by outer
	tokens  map[string]known    // by record, of locks that are fenced
}

// known is what a client knows of a lock's tokens. A tenure with a smaller token than the
// largest is not re-entered: after what its owner may have written since, that token would
// be refused.
type known struct {
	uses    int   // tenures, and attempts whose grants may arrive later than others
	largest Token // of what was granted meanwhile
}

// use counts what uses the lock, and notes a token that was granted. It needs h.mu.
func (h *holdings) use(record string, by int, token Token) {
	k := h.tokens[record]
	if k.uses += by; k.uses == 0 {
		delete(h.tokens, record)
		return
	}
	k.largest = max(k.largest, token)
	if h.tokens == nil {
		h.tokens = map[string]known{}
	}
	h.tokens[record] = k
}

// asks counts the attempts that ask the server for m: by 1 before, by -1 when the tenure has
// been added, if there is one.
func (h *holdings) asks(m *Mutex, by int) {
	if !m.mode.owned() || !m.cfg.fenced {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.use(m.keys.record, by, 0)
}

// find returns the tenure that the owner has, or nil, and whether it is one to [tenure.join]. It may
// be over by then.
//
// A reader has the token of the last writer. Where its owner is one that all processes
// share, that writer may have been the same owner on another client, so the reader asks the
// server. On a quorum readers have no token.
func (h *holdings) find(m *Mutex, o Owner) (t *tenure, joins bool) {
	tokens := m.cfg.fenced && (m.mode != modeRead || m.client.quorum == nil)
	if tokens && m.mode == modeRead && !isID(o.name) {
		return nil, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	t = h.tenures[holding{m.keys.record, o.name, m.mode}]
	return t, t != nil && !(tokens && t.token < h.tokens[m.keys.record].largest)
}

// add needs t.mu, so that a tenure that is over cannot get in.
func (h *holdings) add(t *tenure) {
	if t.owner == "" || t.held == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.tenures == nil {
		h.tenures = map[holding]*tenure{}
	}
	k := t.holding()
	if t.mutex.cfg.fenced {
		h.use(k.record, 1, t.token)
	}
	if first := h.tenures[k]; first == nil || first.token <= t.token {
		t.outer, h.tenures[k] = first, t
	} else { // its grant was overtaken
		at := first
		for at.outer != nil && at.outer.token > t.token {
			at = at.outer
		}
		t.inner, t.outer, at.outer = at, at.outer, t
	}
	if t.outer != nil {
		t.outer.inner = t
	}
}

func (h *holdings) remove(t *tenure) {
	if t.owner == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch k := t.holding(); {
	case t.inner != nil:
		t.inner.outer = t.outer
	case h.tenures[k] != t: // it is not to be re-entered
		return
	case t.outer != nil:
		h.tenures[k] = t.outer
	default:
		delete(h.tenures, k)
	}
	if t.outer != nil {
		t.outer.inner = t.inner
	}
	t.inner, t.outer = nil, nil
	if t.mutex.cfg.fenced {
		h.use(t.mutex.keys.record, -1, 0)
	}
}

func (t *tenure) holding() holding { return holding{t.mutex.keys.record, t.owner, t.mutex.mode} }

// join makes another handle on the tenure for m, without asking the server. ok is
// false if that cannot be: the tenure is over or about to be released, m would
// tell the server something else, or too little of the lease is left.
//
// A handle that is renewed needs half of what a fresh lease of m's TTL is good for,
// and renewal does the rest; one that is not needs all of it, and ends by then.
//
// The caller has m's record, owner and mode from where it found the tenure.
func (t *tenure) join(m *Mutex) (lease *Lease, ok bool) {
	enough := m.ttl - margin(m.ttl)
	if m.cfg.renew {
		enough /= 2
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	joined := exactNow()
	t.check(joined)
	if t.held == nil || m.tail != t.mutex.tail || m.cfg.fenced != t.mutex.cfg.fenced || t.term.leftAt(joined) < enough {
		return nil, false
	}
	lease = &Lease{route: reentered}
	t.admit(lease, m, joined, m.ttl)
	t.plan()
	return lease, true
}
