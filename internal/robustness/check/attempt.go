package check

import (
	"fmt"
	"slices"

	"github.com/golocker/golocker/internal/robustness/history"
)

// An attempt is what is known of one operation: an attempt to hold a lock once. Times
// that are zero are unknown.
type attempt struct {
	worker string
	op     int
	name   string
	mode   history.Mode
	owner  string
	try    bool
	token  uint64

	asked     history.Time
	answered  history.Time // by whatever outcome
	outcome   history.What // Granted, Refused, Failed, or empty if it was cut off
	class     history.Class
	deadline  history.Time // the last that is known
	used      history.Time // when the lease was valid for certain
	ended     history.Time
	unlocking history.Time
	unlocked  history.Time
	released  bool // Unlock said so
	last      history.Time
}

func (a *attempt) String() string { return fmt.Sprintf("%s#%d", a.worker, a.op) }

func (a *attempt) add(e history.Event) {
	a.last = max(a.last, e.At)
	a.deadline = max(a.deadline, e.Deadline)
	switch e.What {
	case history.Asked:
		a.name, a.mode, a.owner, a.try, a.asked = e.Name, e.Mode, e.Owner, e.Try, e.At
	case history.Granted:
		a.token = e.Token
		a.outcome, a.answered = e.What, e.At
	case history.Refused, history.Failed:
		a.class = e.Class
		a.outcome, a.answered = e.What, e.At
	case history.Used:
		a.used = max(a.used, e.Since)
	case history.Ended:
		a.ended = e.At
	case history.Unlocking:
		a.unlocking = e.At
	case history.Unlocked:
		a.unlocked, a.released = e.At, e.Error == ""
	}
}

// Seen is what the files of a round tell.
type seen struct {
	attempts []*attempt // in the order in which they were asked for
	others   []history.Event
}

type operation struct {
	worker string
	op     int
}

// read takes in all events, and counts them.
func (r Round) read(report *Report) (*seen, error) {
	s := &seen{}
	known := map[operation]*attempt{}
	for _, path := range r.Files {
		err := history.ReadFile(path, func(e history.Event) error {
			if e.Worker == "" {
				s.others = append(s.others, e)
				return nil
			}
			key := operation{e.Worker, e.Op}
			a := known[key]
			if a == nil {
				a = &attempt{worker: e.Worker, op: e.Op}
				known[key] = a
				s.attempts = append(s.attempts, a)
			}
			a.add(e)
			report.count(a, e)
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(s.attempts, func(a, b *attempt) int { return int(a.asked - b.asked) })
	return s, nil
}

func (r *Report) count(a *attempt, e history.Event) {
	switch e.What {
	case history.Asked:
		r.Operations++
	case history.Granted:
		r.Grants++
		_ = r.Acquisition.RecordValue(min(e.At.Sub(a.asked), longestWait).Microseconds())
	case history.Refused:
		r.Refusals++
	case history.Failed:
		r.Failures++
	}
}

func (r *Report) judge(round Round, s *seen) {
	for _, e := range s.others {
		switch e.What {
		case history.Injected:
			r.Faults[e.Fault]++
		case history.Sampled:
			r.Samples++
			r.Keys += e.Keys
		}
	}
	faults := 0
	for _, n := range r.Faults {
		faults += n
	}
	if r.Operations < round.LeastOperations || faults < round.LeastFaults {
		r.Violations = append(r.Violations, Violation{
			Law: Active, Text: fmt.Sprintf("%d operations and %d faults, not the least of %d and %d", r.Operations, faults, round.LeastOperations, round.LeastFaults),
		})
	}
}
