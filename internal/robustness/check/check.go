// Package check reads the histories of a round and tells which laws of locks were
// broken in it.
//
// A checker reports only what is certain: events are recorded some time before or after
// what they tell of, and each checker takes the end of that interval which speaks for
// the lock.
package check

import (
	"fmt"
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A Round is what is to be checked.
type Round struct {
	// Files are the logs of the round, one for each process, and that of who injected
	// the faults.
	Files []string
	// LongestTTL is the longest lease time that was asked for.
	LongestTTL time.Duration
	// Margin is by how much a holder gives up before such a lease is over.
	Margin time.Duration
	// Poll is how often a waiter looks at the lock when no message comes.
	Poll time.Duration
	// Place is how long a waiter's place is kept after it was last heard of.
	Place time.Duration
	// Patience is how much later than promised something may happen because the
	// machine is busy.
	Patience time.Duration
	// Lead is by how much earlier than another one a waiter has to come for it to be certain
	// that it was earlier on the server, too. It is Patience if it is 0.
	Lead time.Duration
	// Ordered is true for one deployment, which serves in the order of arrival.
	Ordered bool
	// Effects has what each fault may do, by the fault's name. A fault that is missing
	// may break nothing.
	Effects map[string]Effect
	// LeastOperations and LeastFaults are what makes the round count.
	LeastOperations, LeastFaults int
}

// Run checks a round. The error is about the files.
func (r Round) Run() (*Report, error) {
	if r.Lead == 0 {
		r.Lead = r.Patience
	}
	report := NewReport()
	s, err := r.read(report)
	if err != nil {
		return nil, err
	}
	var found []finding
	for _, name := range s.names() {
		find := func(law history.Law, when span, text string, shows ...*attempt) {
			found = append(found, finding{Violation{Law: law, Name: name, From: when.from, To: when.to, Text: text, Explained: s.explain(law, when)}, shows})
		}
		s.exclusion(name, find)
		s.loss(name, find)
		s.fencing(name, find)
		s.inheritance(name, find)
		s.refusals(name, find)
		s.wakeUps(name, find)
		if r.Ordered {
			report.Queued += s.order(name, find)
		}
		report.Unjudged += s.linear(name, find)
	}
	for _, e := range s.samples {
		found = append(found, finding{Violation: s.violation(history.Mortality, e, fmt.Sprintf("%d keys have no TTL: %q", len(e.Immortal), e.Immortal))})
	}
	for _, e := range s.probes {
		text := fmt.Sprintf("the lock was had after %v with no fault left; the bound is %v", e.At.Sub(e.Since), r.acquirableWithin())
		if e.Error != "" {
			text = fmt.Sprintf("the lock could not be had in %v with no fault left: %s", e.At.Sub(e.Since), e.Error)
		}
		v := s.violation(history.Liveness, e, text)
		if s.hungry(span{v.From, v.To}) {
			v.Explained = "the machine: it had no time for its processes"
		}
		found = append(found, finding{Violation: v})
	}
	for _, name := range s.names() {
		if s.probed[name] == 0 {
			found = append(found, finding{Violation: Violation{Law: history.Liveness, Name: name, Text: "nobody tried whether the lock can be had in the end"}})
		}
	}
	if faults := report.faults(); report.Operations < r.LeastOperations || faults < r.LeastFaults {
		found = append(found, finding{Violation: Violation{
			Law: Active, Text: fmt.Sprintf("%d operations and %d faults prove nothing; the least are %d and %d", report.Operations, faults, r.LeastOperations, r.LeastFaults),
		}})
	}
	return report, r.report(report, found)
}

// A finder takes down a violation, and the attempts that show it.
type finder func(law history.Law, when span, text string, shows ...*attempt)

// violation is one that a single event shows.
func (s *seen) violation(law history.Law, e history.Event, text string) Violation {
	from := e.Since
	if from == 0 {
		from = e.At
	}
	return Violation{
		Law: law, Name: e.Name, From: from, To: e.At, Text: text, Events: []history.Event{e},
		Explained: s.explain(law, span{from, e.At}),
	}
}
