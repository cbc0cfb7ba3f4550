package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// wakeUps finds locks that stayed free though somebody waited, for longer than a fault may
// be the reason of.
func (s *seen) wakeUps(name string, find finder) {
	free := s.free(name)
	if len(free) == 0 {
		return
	}
	for _, a := range s.attempts[name] {
		if a.try {
			continue
		}
		end := a.answered
		if end == 0 {
			end = s.ends[a.process]
		}
		i, _ := slices.BinarySearchFunc(free, a.asked, func(f span, t history.Time) int { return cmp.Compare(f.to, t) })
		for _, f := range free[i:] {
			if f.from >= end {
				break
			}
			idle := span{max(f.from, a.asked), min(f.to, end)}
			if idle.length() <= s.round.Patience {
				continue
			}
			for _, part := range s.undisturbed(idle) {
				if part.length() > s.round.Patience {
					find(history.Wakeup, part, fmt.Sprintf("%v waited for %v while nobody held the lock", a, part.length().Round(time.Millisecond)), a)
				}
			}
		}
	}
}

// free returns when nobody can have held a lock, for longer than patience lasts.
func (s *seen) free(name string) []span {
	var busy []span
	for _, a := range s.attempts[name] {
		if a.answered == 0 {
			busy = append(busy, span{s.ends[a.process], s.until(a)})
		} else {
			busy = append(busy, span{a.answered, s.until(a)})
		}
	}
	slices.SortFunc(busy, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	var free []span
	from := history.Time(0)
	for _, b := range busy {
		if b.from.Sub(from) > s.round.Patience {
			free = append(free, span{from, b.from})
		}
		from = max(from, b.to)
	}
	return append(free, span{from, forever})
}

// refusals finds answers that the lock was held while nobody can have had it, or waited
// for it.
func (s *seen) refusals(name string, find finder) {
	attempts := s.attempts[name]
	// One that is refused may be in its own way, so that the two latest count.
	var latest, second *attempt
	asked := attempts
	for _, a := range attempts {
		if a.outcome != history.Refused || !a.try {
			continue
		}
		for len(asked) > 0 && asked[0].asked <= a.answered {
			switch b := asked[0]; {
			case latest == nil || s.until(b) > s.until(latest):
				latest, second = b, latest
			case second == nil || s.until(b) > s.until(second):
				second = b
			}
			asked = asked[1:]
		}
		other := latest
		if other == a {
			other = second
		}
		if (other == nil || s.until(other) < a.asked) && !s.keptOut(a, attempts) && s.quiet(span{a.asked, a.answered}) {
			find(Honest, span{a.asked, a.answered}, fmt.Sprintf("%v was refused a lock that nobody had", a), a)
		}
	}
}

// keptOut tells whether a writer that waited keeps a reader out of a quorum: one that is no
// longer there may have left its intent on a node, for as long as a place is kept.
func (s *seen) keptOut(reader *attempt, attempts []*attempt) bool {
	if s.round.Ordered || reader.mode != history.Read {
		return false
	}
	return slices.ContainsFunc(attempts, func(w *attempt) bool {
		end := w.answered
		if end == 0 {
			end = s.ends[w.process]
		}
		return w.mode == history.Write && !w.try && w.asked < reader.answered && reader.asked < end.Add(s.round.Place)
	})
}
