package locker

import "time"

// An owner that has a hold takes another past the queue, since waiting for those who
// wait for that hold would be a deadlock. Finding the hold among thousands costs the
// server a walk through all of them, so a request says what is known: the id of a hold,
// or one of these.
const (
	noHold       = "-" // the owner has none, as it was made for the attempt
	noHoldLately = "=" // it had none a while ago
)

// lookAgain is how long a waiter relies on noHoldLately. What its owner has got at this
// client is known at once; this is for an owner of the same name in another process.
const lookAgain = 30 * time.Second

// tellHolds sets what the next request says of other holds of the owner.
func (a *attempt) tellHolds() {
	switch r := &a.req; {
	case a.told:
		r.otherHold = a.outer.id
	case a.owner.alone:
		r.otherHold = noHold
	case r.mode == modeRead || r.mode == modeWrite:
		r.otherHold = a.client.holdings.reads(a.mutex, a.owner)
		if r.otherHold == "" && time.Since(a.looked) < lookAgain {
			r.otherHold = noHoldLately
		}
	}
}

// noteHolds notes what the request was answered.
func (a *attempt) noteHolds(err error) {
	if a.req.otherHold == "" && answered(err) {
		a.looked = time.Now()
	}
}

// reads returns the id of a hold by which the owner reads, if one is known. Of the
// owner's other holds the server learns by itself: it meets them where it looks who is in
// the way.
func (h *holdings) reads(m *Mutex, o Owner) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.tenures[holding{m.keys.record, o.name, modeRead}]; t != nil {
		return t.id
	}
	return ""
}
