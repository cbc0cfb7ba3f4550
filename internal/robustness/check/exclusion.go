package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A hold is the time for which somebody held a lock for certain.
type hold struct {
	*attempt
	span
}

// holds returns those of a list of attempts, by their beginnings.
func holds(attempts []*attempt) []hold {
	var list []hold
	for _, a := range attempts {
		if s, ok := a.certain(); ok {
			list = append(list, hold{a, s})
		}
	}
	slices.SortFunc(list, func(a, b hold) int { return cmp.Compare(a.from, b.from) })
	return list
}

// exclusion finds holds that exclude each other and yet overlap.
func (s *seen) exclusion(name string, find finder) {
	var current []hold
	for _, h := range holds(s.attempts[name]) {
		current = slices.DeleteFunc(current, func(o hold) bool { return o.to <= h.from })
		for _, o := range current {
			if !o.excludes(h.attempt) {
				continue
			}
			both := span{h.from, min(o.to, h.to)}
			law, text := overlap(o, h)
			find(law, both, text, o.attempt, h.attempt)
		}
		current = append(current, h)
	}
}

// overlap says which law is broken when b begins while a still is.
func overlap(a, b hold) (history.Law, string) {
	length := min(a.to, b.to).Sub(b.from)
	rw := func(m history.Mode) bool { return m == history.Read || m == history.Write }
	law := history.Exclusion
	if rw(a.mode) && rw(b.mode) {
		law = history.ReadWrite
	}
	switch heir := a.heir(); {
	case heir != nil && a.used < b.from:
		return law, fmt.Sprintf("%v (%s) held the lock until it went on as %v, and %v (%s) held it beside that for %v", a, a.mode, heir, b, b.mode, length)
	case a.left && a.used < b.from:
		return law, fmt.Sprintf("%v (%s) had left the lock on the server for %v, and %v (%s) held it in that time for %v", a, a.mode, a.kept, b, b.mode, length)
	case a.used < b.from:
		return Honest, fmt.Sprintf("Unlock told %v that it had held the lock until then, %v after %v was granted it", a, length, b)
	case law == history.ReadWrite:
		return law, fmt.Sprintf("%v (%s) and %v (%s) both held the lock for %v", a, a.mode, b, b.mode, length)
	case a.release != succeeded:
		return history.LossFirst, fmt.Sprintf("%v, which lost the lock, still held it for %v beside %v", a, length, b)
	}
	return law, fmt.Sprintf("%v and %v both held the lock for %v", a, b, length)
}
