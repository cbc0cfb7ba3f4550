package check

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A Violation is a law that was broken.
type Violation struct {
	Law  history.Law `json:"law"`
	Name string      `json:"name,omitempty"` // of the lock, if it is about one
	// From and To are between when it happened.
	From history.Time `json:"from"`
	To   history.Time `json:"to"`
	// Text says what is wrong, and Events shows it.
	Text   string          `json:"text"`
	Events []history.Event `json:"events,omitempty"`
	// Explained is the fault which may break the law, and why; empty if there is none.
	Explained string `json:"explained,omitempty"`
}

// String tells of the violation in several lines.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", v.Law)
	if v.Name != "" {
		fmt.Fprintf(&b, "%q: ", v.Name)
	}
	b.WriteString(v.Text)
	if v.Explained != "" {
		fmt.Fprintf(&b, "\n  explained by %s", v.Explained)
	}
	for _, e := range v.Events {
		line, err := json.Marshal(e)
		if err != nil {
			line = []byte(err.Error())
		}
		fmt.Fprintf(&b, "\n  %+.6fs %s", e.At.Sub(v.From).Seconds(), line)
	}
	return b.String()
}

// A finding is a violation whose events are still to be looked up.
type finding struct {
	Violation
	shows []*attempt
}

const (
	// mostShown is how many violations of one law have their events looked up, and
	// mostEvents how many of an attempt's events are shown, the first and the last.
	mostShown  = 20
	mostEvents = 12
)

// report adds what was found to the report, with the events that show it.
func (r Round) report(report *Report, found []finding) error {
	wanted := map[operation][]history.Event{}
	shown := map[history.Law]int{}
	for _, f := range found {
		if f.Explained == "" {
			if shown[f.Law]++; shown[f.Law] <= mostShown {
				for _, a := range f.shows {
					wanted[a.operation] = nil
				}
			}
		}
	}
	if len(wanted) > 0 {
		for _, path := range r.Files {
			if err := history.ReadFile(path, func(e history.Event) error {
				id := operation{e.Worker, e.Op}
				if list, ok := wanted[id]; ok && e.Worker != "" {
					wanted[id] = append(list, e)
				}
				return nil
			}); err != nil {
				return err
			}
		}
	}
	for _, f := range found {
		for _, a := range f.shows {
			f.Events = append(f.Events, brief(wanted[a.operation])...)
		}
		slices.SortStableFunc(f.Events, func(a, b history.Event) int { return cmp.Compare(a.At, b.At) })
		if f.Explained == "" {
			report.Violations = append(report.Violations, f.Violation)
		} else {
			report.Explained = append(report.Explained, f.Violation)
		}
	}
	return nil
}

func brief(events []history.Event) []history.Event {
	if len(events) <= mostEvents {
		return events
	}
	return slices.Concat(events[:mostEvents/2], events[len(events)-mostEvents/2:])
}
