package check

import (
	"fmt"
	"regexp"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// goneText is how the errors read by which a holder learns, at a renewal or at its Unlock,
// that the server does not have its lease any more: ErrAbsent and ErrTaken.
var goneText = regexp.MustCompile(`the lease is gone from the server|the lock is somebody else's`)

// misread is by how much a deadline may be off that was translated from one clock to
// another.
const misread = 10 * time.Millisecond

// look notes whether the event shows a deadline that cannot be right.
func (s *seen) look(a *attempt, e history.Event) {
	if e.Deadline == 0 {
		return
	}
	if e.What == history.Used && e.Since.Sub(e.Deadline) > misread && a.late == nil {
		a.late = &e
	}
	if e.Deadline.Sub(e.At) > s.round.LongestTTL-s.round.Margin+misread && a.far == nil {
		a.far = &e
	}
}

// loss finds leases whose end is not the one that was promised: used beyond their
// deadline, with a deadline that no request can have given, or gone before it while
// nothing was wrong.
func (s *seen) loss(name string, find finder) {
	for _, a := range s.attempts[name] {
		if e := a.late; e != nil {
			find(history.LossFirst, span{e.Deadline, e.Since}, fmt.Sprintf("%v was valid %v after its deadline", a, e.Since.Sub(e.Deadline)), a)
		}
		if e := a.far; e != nil {
			find(history.LossFirst, span{e.At, e.Deadline}, fmt.Sprintf("%v has a deadline %v from now, with TTLs of %v at most", a, e.Deadline.Sub(e.At), s.round.LongestTTL), a)
		}
		if a.gone != 0 && a.gone < a.deadline && s.quiet(span{a.asked, a.gone}) {
			find(history.LossFirst, span{a.answered, a.gone}, fmt.Sprintf("%v was gone from the server %v before its deadline", a, a.deadline.Sub(a.gone)), a)
		}
	}
}
