package worker

import (
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A plan is what a hand is going to do with one lock.
type plan struct {
	lock      Lock
	mode      history.Mode
	ttl       time.Duration
	try       bool          // TryLock, else Lock
	patience  time.Duration // for how long Lock waits
	inspect   bool
	noRenewal bool
	abandon   bool // it is never unlocked, as by a bug or a crash of the caller
	nested    bool // it is taken again by its owner
	// takeUp goes on with a lease that another worker has left, if there is one, in place of
	// taking the lock; which says with which one, and copied leaves it to others, too.
	takeUp, copied bool
	which          int
	// leave detaches the lease in the end, for the time kept; apart does so with the inner one
	// of a nested lock, and lost tells nobody.
	leave, apart, lost bool
	kept               time.Duration
	// downgrade goes on to read after writing.
	downgrade bool
	// outerFirst gives the two of a nested lock up in the order in which they were taken.
	outerFirst bool
	hold       time.Duration
	extend     bool
	extension  time.Duration
	rest       time.Duration // afterwards
}

// draw makes the next plan. Always the same numbers are drawn, so that what one plan
// is like does not change those after it.
func (h *hand) draw() plan {
	p := plan{
		lock:       h.locks[h.rand.IntN(len(h.locks))],
		try:        h.oneIn(3),
		patience:   h.cfg.TTL/4 + h.upTo(2*h.cfg.TTL),
		inspect:    h.oneIn(40),
		noRenewal:  h.oneIn(20),
		abandon:    h.oneIn(15), // of those without renewal
		nested:     h.oneIn(4),
		outerFirst: h.oneIn(4),
		extend:     h.oneIn(50),
		extension:  h.cfg.TTL + h.upTo(h.cfg.Longest-h.cfg.TTL),
		ttl:        h.cfg.TTL,
		rest:       h.upTo(2 * h.cfg.Pause),
		takeUp:     h.oneIn(15),
		copied:     h.oneIn(5),
		which:      h.rand.IntN(1000),
		leave:      h.oneIn(20),
		apart:      h.oneIn(2),
		lost:       h.oneIn(6),
		kept:       h.cfg.TTL/2 + h.upTo(h.cfg.Longest-h.cfg.TTL/2),
		downgrade:  h.oneIn(3),
	}
	favourite := h.locks[h.rand.IntN(popular)]
	if h.oneIn(10) {
		p.lock = favourite
	}
	p.mode = p.lock.Kind.strictest()
	if reads := h.rand.IntN(4) > 0; reads && p.lock.Kind == ReadWrite {
		p.mode = history.Read
	}
	if shorter := h.cfg.TTL/2 + h.upTo(h.cfg.TTL/2); h.oneIn(4) {
		p.ttl = shorter
	}
	if h.oneIn(30) {
		p.patience = 10 * h.cfg.TTL
	}
	p.abandon = p.abandon && p.noRenewal
	p.nested = p.nested && !p.abandon
	p.hold = h.length()
	return p
}

// length returns for how long a lock is held: mostly not at all, now and then for longer
// than a lease.
func (h *hand) length() time.Duration {
	moment, while, long := h.upTo(10*time.Millisecond), h.upTo(100*time.Millisecond), h.cfg.TTL+h.upTo(h.cfg.TTL)
	switch n := h.rand.IntN(100); {
	case n < 60:
		return 0
	case n < 90:
		return moment
	case n < 99:
		return while
	default:
		return long
	}
}
