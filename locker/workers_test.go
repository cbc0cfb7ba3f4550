package locker

import (
	"fmt"
	"time"
)

// crew are the workers of a history. They make requests of what is to be done, in
// the way in which a client does.
type crew struct {
	modes []mode
	pace  time.Duration // of a step
	// claims are those of each worker: of the last one it will hear, and the
	// others it has got before, and holds.
	claims  [workers][]*claim
	last    [workers]*claim // the latest that is over for the worker, maybe detached
	numbers [workers]int
	total   int
	sent    []*sending
}

// life is a time to keep something: half a step, one and a half, and so on, for n
// below longest.
func (w *crew) life(n int) time.Duration { return time.Duration(2*n+1) * w.pace / 2 }

// next returns the request that d makes, or nil. again tells that it was made before.
func (w *crew) next(d doing) (s *sending, again bool) {
	if d.verb == repeat {
		if len(w.sent) == 0 {
			return nil, false
		}
		return w.sent[len(w.sent)-1-d.other%len(w.sent)], true
	}
	if s = w.make(d); s != nil {
		w.sent = append(w.sent, s)
	}
	return s, false
}

func (w *crew) make(d doing) *sending {
	c := w.top(d.worker)
	if (c == nil || c.believed) && (d.verb == ask || d.verb == set) {
		c = w.claim(d, w.modes[d.mode], c)
		if d.within {
			c.within = w.hold(c)
		}
	}
	switch d.verb {
	case force:
		return &sending{verb: force}
	case attach:
		return w.attach(d)
	case crash:
		w.drop(d.worker)
		w.claims[d.worker] = nil
		return nil
	}
	if c == nil {
		return nil
	}
	switch d.verb {
	case set:
		if c.asked || c.fenced || c.mode.owned() {
			return w.ask(c, d)
		}
		c.asked = true
		return &sending{verb: set, claim: c}
	case ask:
		return w.ask(c, d)
	case renew:
		return &sending{verb: renew, claim: c, ttl: w.life(d.ttl), fenced: d.fenced}
	case turnOver:
		if c.mode != modeMutex {
			return nil
		}
		return &sending{verb: turnOver, claim: c}
	case end:
		return w.end(c, d)
	case unattach:
		if c.from == nil {
			return nil
		}
		w.drop(d.worker)
		w.last[d.worker] = c.from
		return &sending{verb: unattach, claim: c}
	}
	return nil
}

// claim begins a new one, by the owner of an outer one if there is any.
func (w *crew) claim(d doing, m mode, outer *claim) *claim {
	w.numbers[d.worker]++
	w.total++
	c := &claim{
		name:   fmt.Sprintf("%c%d", 'A'+d.worker, w.numbers[d.worker]),
		number: w.total, mode: m, ttl: w.life(d.ttl), fenced: d.fenced,
	}
	switch {
	case !m.owned():
	case outer != nil && outer.mode.owned():
		c.owner = outer.owner
	case d.alone:
		c.owner, c.alone = fmt.Sprintf("n%d", c.number), true
	default:
		c.owner = fmt.Sprintf("o%d", d.owner)
	}
	w.claims[d.worker] = append(w.claims[d.worker], c)
	return c
}

// hold returns a claim of the same owner and mode, to re-enter.
func (w *crew) hold(c *claim) *claim {
	for _, claims := range w.claims {
		for _, o := range claims {
			if c.mode.owned() && o != c && o.owner == c.owner && o.mode == c.mode && o.believed {
				return o
			}
		}
	}
	return nil
}

func (w *crew) ask(c *claim, d doing) *sending {
	if c.from != nil {
		return &sending{verb: attach, claim: c}
	}
	c.asked, c.scripted = true, true
	s := &sending{verb: ask, claim: c}
	if d.life >= 0 {
		s.want = wanted{d.channel, w.life(d.life)}
		c.queued = true
	}
	return s
}

func (w *crew) end(c *claim, d doing) *sending {
	s := &sending{verb: end, claim: c, release: c.believed, queued: c.queued}
	switch {
	case d.late:
		s.remember = voidLife(c.ttl)
	case c.scripted:
		s.remember = echoLife
	}
	w.drop(d.worker)
	return s
}

// attach takes up the lease of another worker, or the one that this worker has tried
// to take up before.
func (w *crew) attach(d doing) *sending {
	from := w.top(d.other % workers)
	if from == nil {
		from = w.last[d.other%workers]
	}
	if from == nil {
		return nil
	}
	earlier := w.top(d.worker)
	w.drop(d.worker)
	c := w.claim(d, from.mode, nil)
	c.owner, c.from, c.scripted = from.owner, from, true
	if earlier != nil && earlier.from != nil && d.within {
		c.from, c.unsure = earlier.from, earlier
		c.mode, c.owner = c.from.mode, c.from.owner
	}
	return &sending{verb: attach, claim: c}
}

func (w *crew) top(worker int) *claim {
	if n := len(w.claims[worker]); n > 0 {
		return w.claims[worker][n-1]
	}
	return nil
}

func (w *crew) drop(worker int) {
	if c := w.top(worker); c != nil {
		claims := w.claims[worker]
		w.last[worker], w.claims[worker] = c, claims[:len(claims)-1]
	}
}
