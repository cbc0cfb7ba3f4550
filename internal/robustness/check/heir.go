package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A lease may go on as another one: one that is detached is taken up by its id, maybe in
// another process, and one for writing turns into one for reading. There is no gap between
// the two in which somebody else could have the lock, so that both together are one hold;
// who takes up what was detached gets a token of its own.

// inherit makes known to each other the attempts whose leases go on as another.
func inherit(known map[operation]*attempt, report *Report) {
	for _, a := range known {
		before := known[operation{a.source.Worker, a.source.Op}]
		if before == nil || a.asked == 0 {
			continue
		}
		a.before = before
		before.heirs = append(before.heirs, a)
		switch {
		case a.outcome != history.Granted:
		case before.left:
			report.TakenUp++
		default:
			report.Downgraded++
		}
	}
	for _, a := range known {
		slices.SortFunc(a.heirs, func(a, b *attempt) int { return cmp.Compare(a.asked, b.asked) })
		if a.left {
			report.Left++
		}
	}
}

// heir returns the attempt as which the lease has gone on, nil if there is none.
func (a *attempt) heir() *attempt {
	i := slices.IndexFunc(a.heirs, func(h *attempt) bool { return h.outcome == history.Granted })
	if i < 0 {
		return nil
	}
	return a.heirs[i]
}

// keptUntil is until when the server keeps a lease that was detached, unless it is taken up.
// It counts a little less than the server, which has whole milliseconds and a clock of its
// own.
func (a *attempt) keptUntil() history.Time {
	return a.detaching.Add(a.kept - a.kept/100 - 2*time.Millisecond)
}

// lasts is until when a detached lease that nobody has taken up is there for certain. Who has
// tried, and does not know whether it has it, may have made it shorter.
func (a *attempt) lasts() history.Time {
	if len(a.heirs) > 0 {
		return min(a.keptUntil(), a.heirs[0].asked)
	}
	return a.keptUntil()
}

// inheritance finds detached leases that were not there any more when they were taken up in
// time, or were taken up twice, or with a token that is not larger.
func (s *seen) inheritance(name string, find finder) {
	for _, a := range s.attempts[name] {
		if !a.left || len(a.heirs) == 0 {
			continue
		}
		first := a.heirs[0]
		alone := len(a.heirs) == 1 || a.heirs[1].asked > first.answered
		if first.outcome == history.Failed && first.class == history.Lost && alone &&
			first.answered < a.keptUntil() && s.quiet(span{a.asked, first.answered}) {
			find(history.LossFirst, span{a.detaching, first.answered},
				fmt.Sprintf("%v left its lease for %v, and it was gone when %v took it up after %v", a, a.kept, first, first.answered.Sub(a.detaching)), a, first)
		}
		heir := a.heir()
		if heir == nil {
			continue
		}
		for _, other := range a.heirs {
			if other != heir && other.outcome == history.Granted {
				find(history.Exclusion, span{other.asked, other.answered}, fmt.Sprintf("%v and %v have both taken up the lease of %v", heir, other, a), a, heir, other)
			}
		}
		if a.token != 0 && a.mode != history.Read && heir.token <= a.token {
			find(history.Fencing, span{heir.asked, heir.answered},
				fmt.Sprintf("%v has taken up the lease of %v, whose token was %d, with the token %d", heir, a, a.token, heir.token), a, heir)
		}
	}
}
