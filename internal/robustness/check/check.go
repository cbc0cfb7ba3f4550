// Package check reads the histories of a round and tells which laws of locks were
// broken in it.
//
// A checker reports only what is certain: events are recorded some time before or after
// what they tell of, and each checker takes the end of that interval which speaks for
// the lock.
package check

import (
	"time"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A Round is what is to be checked.
type Round struct {
	// Files are the logs of all processes of the round, also of that which injected
	// the faults.
	Files []string
	// LongestTTL is the longest lease time that was asked for.
	LongestTTL time.Duration
	// Poll is how often a waiter looks at the lock when no message comes.
	Poll time.Duration
	// Patience is how much later than promised something may happen because the
	// machine is busy.
	Patience time.Duration
	// Ordered is true for one deployment, which serves in the order of arrival.
	Ordered bool
	// Effects has what each fault may do, by the fault's name. A fault that is missing
	// may break nothing.
	Effects map[string]Effect
	// LeastOperations and LeastFaults are what makes the round count.
	LeastOperations, LeastFaults int
}

// A Violation is a law that was broken.
type Violation struct {
	Law  history.Law
	Name string // of the lock, if it is about one
	// From and To are between when it happened.
	From, To history.Time
	// Text says what is wrong, and Events shows it.
	Text   string
	Events []history.Event
	// Explained is the fault which may break the law, and why; empty if there is none.
	Explained string
}

// Run checks a round.
func (r Round) Run() (*Report, error) {
	report := NewReport()
	seen, err := r.read(report)
	if err != nil {
		return nil, err
	}
	report.judge(r, seen)
	return report, nil
}
