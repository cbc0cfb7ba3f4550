package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/golocker/golocker/internal/robustness/history"
)

// order finds waiters that were passed by others who came later: when they stood in the
// queue for certain, or else by more than the lead. Three may do so: who re-enters; the
// goroutines of a process whose turn it is, among which it passes the lock on for a while;
// and one newcomer where a lease ran out unnoticed.
//
// While faults are active little can be told. When a worker's request has reached the server
// is not known, and a connection that a fault has left dead holds it up by an attempt's
// time, once or more, also long after the fault was healed; so the lead cannot be less
// than that, and few wait for so long, undisturbed. And as long as processes take a lock again
// and again, each may have a turn. That is why, when all faults are healed, clients
// without a past line up at the locks that had been wanted most: of these it is known
// when they stood in the queue.
//
// It returns for how many waiters that can be told.
func (s *seen) order(name string, find finder) (judged int) {
	attempts := s.attempts[name]
	served := holds(attempts)
	for _, w := range attempts {
		if w.try || w.owner != "" || w.answered == 0 || w.outcome != history.Granted && !w.gaveUp() {
			continue
		}
		known, calm := w.asked.Add(s.round.Lead), s.quiet
		if w.queued != 0 {
			known, calm = w.queued, s.over
		}
		if w.answered <= known || !calm(span{w.asked, w.answered}) {
			continue
		}
		judged++
		i, _ := slices.BinarySearchFunc(served, known, func(h hold, t history.Time) int { return cmp.Compare(h.from, t) })
		turns := s.turns(attempts, known)
		shown := []*attempt{w}
		for _, h := range served[i:] {
			if h.from >= w.answered {
				break
			}
			if h.asked > known && !h.try && h.owner == "" && h.excludes(w) && !turns[h.process].meets(h.span) {
				shown = append(shown, h.attempt)
			}
		}
		if passed := len(shown) - 1; passed > 0 && passed > s.lapses(name, span{w.asked, w.answered}) {
			find(history.Order, span{w.asked, w.answered}, fmt.Sprintf("%v waited for %v and was passed by %d who came later, by at least %v", w, w.answered.Sub(w.asked), passed, known.Sub(w.asked)), shown...)
		}
	}
	return judged
}

// turns returns when each process may have its turn because of an attempt made by then:
// until a TTL after the last of them was answered.
func (s *seen) turns(attempts []*attempt, by history.Time) map[int]span {
	turns := map[int]span{}
	for _, a := range attempts {
		if a.asked > by {
			break
		}
		end := forever
		if a.answered != 0 {
			end = a.answered.Add(s.round.LongestTTL)
		}
		turns[a.process] = span{0, max(turns[a.process].to, end)}
	}
	return turns
}

// lapses counts the leases that may have run out during the span, each of which lets one
// pass.
func (s *seen) lapses(name string, during span) int {
	n := 0
	probed := s.probed[name]
	for _, a := range s.attempts[name] {
		if a.asked < probed && probed < during.from {
			continue // somebody has had the lock since
		}
		if a.outcome == history.Refused || a.gaveUp() || a.release != unanswered {
			continue
		}
		if (span{a.asked, s.until(a)}).meets(during) {
			n++
		}
	}
	return n
}
