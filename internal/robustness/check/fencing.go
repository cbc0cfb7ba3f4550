package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/golocker/golocker/internal/robustness/history"
)

// fencing finds tokens that are not larger than those of earlier grants, and writes that
// the resource should have answered otherwise.
func (s *seen) fencing(name string, find finder) {
	var all []*attempt
	for _, a := range s.attempts[name] {
		if a.outcome == history.Granted && a.token != 0 {
			all = append(all, a)
		}
	}
	granted := newGrants(all)
	disordered := map[*attempt]bool{}
	report := func(law history.Law, earlier, later *attempt) {
		if earlier == nil || disordered[later] || inOrder(earlier, later) {
			return
		}
		disordered[later] = true
		if later.mode == history.Read {
			law = Reading
		}
		find(law, span{earlier.answered, later.answered},
			fmt.Sprintf("%v has the token %d, and %v was granted %d before", later, later.token, earlier, earlier.token), earlier, later)
	}

	// Who asked after another one had been granted the lock was granted it later.
	byAnswer := slices.Clone(granted)
	slices.SortFunc(byAnswer, func(a, b *attempt) int { return cmp.Compare(a.answered, b.answered) })
	var largest *attempt
	for _, a := range granted {
		for len(byAnswer) > 0 && byAnswer[0].answered < a.asked {
			largest = larger(largest, byAnswer[0])
			byAnswer = byAnswer[1:]
		}
		report(history.Fencing, largest, a)
	}

	// So was who held it after another one, where they exclude each other: two servers that
	// both grant it, as after a failover, may be heard of in another order. Readers do not,
	// and have the token of the last writer.
	begun := holds(granted)
	ended := slices.Clone(begun)
	slices.SortFunc(ended, func(a, b hold) int { return cmp.Compare(a.to, b.to) })
	var reader, other *attempt
	for _, h := range begun {
		for len(ended) > 0 && ended[0].to < h.from {
			if ended[0].mode == history.Read {
				reader = larger(reader, ended[0].attempt)
			} else {
				other = larger(other, ended[0].attempt)
			}
			ended = ended[1:]
		}
		report(Linearizable, other, h.attempt)
		if h.mode != history.Read {
			report(Linearizable, reader, h.attempt)
		}
	}

	byToken := map[uint64]*attempt{}
	for _, a := range granted {
		if a.mode == history.Read {
			continue
		}
		if o := byToken[a.token]; o != nil {
			report(history.Fencing, o, a)
		}
		byToken[a.token] = a
	}
	s.resource(name, all, find)
}

// newGrants leaves out who re-entered what the owner held: such a hold has the token of the
// first. granted is in the order in which they asked, and so is what is left.
func newGrants(granted []*attempt) []*attempt {
	type held struct {
		owner string
		token uint64
	}
	until := map[held]history.Time{}
	return slices.DeleteFunc(slices.Clone(granted), func(a *attempt) bool {
		if a.owner == "" {
			return false
		}
		h := held{a.owner, a.token}
		end, known := until[h]
		mine := cmp.Or(a.unlocking, history.Time(math.MaxInt64))
		until[h] = max(end, mine)
		return known && a.asked < end
	})
}

func larger(a, b *attempt) *attempt {
	if a == nil || b.token >= a.token {
		return b
	}
	return a
}

// inOrder tells whether the later one's token is as it should be, unless its owner has
// re-entered. A reader has that of the last writer.
func inOrder(earlier, later *attempt) bool {
	return later.token > earlier.token || later.mode == history.Read && later.token == earlier.token
}

// sameHold tells whether an owner may have re-entered what it held.
func sameHold(a, b *attempt) bool { return a.owner != "" && a.owner == b.owner && a.token == b.token }

// resource finds writes of somebody who held the lock, that were refused, and writes with
// smaller tokens that were taken.
func (s *seen) resource(name string, granted []*attempt, find finder) {
	type writing struct {
		*attempt
		write
	}
	var taken []writing
	for _, a := range granted {
		certain, _ := a.certain()
		for _, w := range a.writes {
			switch {
			case w.accepted:
				taken = append(taken, writing{a, w})
			case w.done <= certain.to && a.owner == "":
				// Somebody held it later and has written. An owner writes with the tokens
				// of several leases.
				find(history.Exclusion, span{w.sent, w.done}, fmt.Sprintf("%v held the lock, and its write with the token %d was refused", a, a.token), a)
			}
		}
	}
	byEnd := slices.Clone(taken)
	slices.SortFunc(byEnd, func(a, b writing) int { return cmp.Compare(a.done, b.done) })
	slices.SortFunc(taken, func(a, b writing) int { return cmp.Compare(a.sent, b.sent) })
	var largest *attempt
	for _, w := range taken {
		for len(byEnd) > 0 && byEnd[0].done < w.sent {
			largest = larger(largest, byEnd[0].attempt)
			byEnd = byEnd[1:]
		}
		if largest != nil && largest.token > w.token {
			find(history.Fencing, span{w.sent, w.done}, fmt.Sprintf("the resource took the write of %v with the token %d after one of %v with %d", w, w.token, largest, largest.token), largest, w.attempt)
		}
	}
}
