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
//
// A reader has the token of the last writer. So a fenced tenure for reading is not in it
// where its owner may have written since it was granted.
type holdings struct {
	mu      sync.Mutex
	tenures map[holding]*tenure
	reading map[string]reading // by record
}

// A reading is there while attempts ask for a lock that is fenced, to read. Their grants may
// arrive later than that of a writer who came after them.
type reading struct {
	asking int
	wrote  Token // the largest of a writer that was granted the lock meanwhile
}

// asks counts the attempts that ask the server for m: by 1 before, by -1 when the tenure has
// been added, if there is one.
func (h *holdings) asks(m *Mutex, by int) {
	if m.mode != modeRead || !m.cfg.fenced || m.client.quorum != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.reading[m.keys.record]
	if r.asking += by; r.asking == 0 {
		delete(h.reading, m.keys.record)
		return
	}
	if h.reading == nil {
		h.reading = map[string]reading{}
	}
	h.reading[m.keys.record] = r
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
	r, read := h.reading[k.record]
	if t.outdated(r.wrote) {
		return
	}
	h.tenures[k] = t
	if k.mode == modeWrite && t.token > 0 {
		// What is read from now on is what this writer wrote, and needs its token.
		if read {
			r.wrote = max(r.wrote, t.token)
			h.reading[k.record] = r
		}
		k.mode = modeRead
		delete(h.tenures, k)
	}
}

// outdated tells whether the owner of a tenure for reading may have written since it was
// granted: on this client, or on another, where the owner is one of all processes. On a
// quorum readers have no token.
func (t *tenure) outdated(wrote Token) bool {
	fenced := t.mode == modeRead && t.mutex.cfg.fenced && t.client.quorum == nil
	return fenced && (t.token < wrote || !isID(t.owner))
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
