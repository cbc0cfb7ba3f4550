package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/golocker/golocker/internal/robustness/history"
)

// order finds waiters that were passed by others who came later, by more than the
// lead. Three may do so: who re-enters; the goroutines of a process whose turn it is,
// among which it passes the lock on for a while; and one newcomer where a lease ran out
// unnoticed.
//
// It returns for how many waiters that can be told.
func (s *seen) order(name string, find finder) (judged int) {
	attempts := s.attempts[name]
	served := holds(attempts)
	for _, w := range attempts {
		if w.try || w.owner != "" || w.answered == 0 || w.outcome != history.Granted && !w.gaveUp() {
			continue
		}
		known := w.asked.Add(s.round.Lead)
		if w.answered <= known || !s.quiet(span{w.asked, w.answered}) {
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
			find(history.Order, span{w.asked, w.answered}, fmt.Sprintf("%v waited for %v and was passed by %d who came at least %v later", w, w.answered.Sub(w.asked), passed, s.round.Lead), shown...)
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
	for _, a := range s.attempts[name] {
		if a.outcome == history.Refused || a.gaveUp() || a.release != unanswered {
			continue
		}
		if (span{a.asked, s.until(a)}).meets(during) {
			n++
		}
	}
	return n
}
