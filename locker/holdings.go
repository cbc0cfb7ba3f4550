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
// an owner never is. Where an owner has several tenures of a kind, it is the latest.
type holdings struct {
	mu      sync.Mutex
	tenures map[holding]*tenure
}

// find returns the tenure to [tenure.join], or nil. It may be over by then.
func (h *holdings) find(m *Mutex, o Owner) *tenure {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.tenures[holding{m.keys.record, o.name, m.mode}]
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
	h.tenures[k] = t
	if k.mode == modeWrite && t.token > 0 {
		// What is read from now on is what this writer wrote, and needs its token.
		k.mode = modeRead
		delete(h.tenures, k)
	}
}

func (h *holdings) remove(t *tenure) {
	if t.owner == "" {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := t.holding(); h.tenures[k] == t {
		delete(h.tenures, k)
	}
}

func (t *tenure) holding() holding { return holding{t.mutex.keys.record, t.owner, t.mode} }

// join makes another handle on the tenure for m, without asking the server. ok is
// false if that cannot be: the tenure is over or about to be released, m would
// have the server know something else, or too little of the lease is left.
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
	joined := now()
	joined.asleep = suspended.now()
	t.check(joined.asleep)
	if t.held == nil || m.tail != t.mutex.tail || m.cfg.fenced != t.mutex.cfg.fenced || t.term.left(joined.asleep) < enough {
		return nil, false
	}
	lease = &Lease{route: reentered}
	t.admit(lease, m, joined, m.ttl)
	t.plan()
	return lease, true
}
