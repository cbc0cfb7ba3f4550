package conformance

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Report is what [Run] found.
type Report struct {
	Results []Result // one for each case, in the order of [Cases]
}

// A Result is the outcome of one case.
type Result struct {
	Case     string        // one of [Cases]
	Status   Status        // how it ended
	Failures []string      // what went wrong; for Skipped, why
	Known    Deviation     // for Known and Stale
	Elapsed  time.Duration // real time
}

// A Status is a kind of outcome.
type Status int

// The kinds of outcome. Failed and Stale fail a run.
const (
	Passed  Status = iota
	Failed         // the driver breaks the clause
	Skipped        // the driver lacks the capability or the server the feature
	Known          // it failed, as [Harness.Known] says
	Stale          // it passed although it is listed in [Harness.Known]
)

// String returns the status as a word.
func (s Status) String() string {
	switch s {
	case Failed:
		return "failed"
	case Skipped:
		return "skipped"
	case Known:
		return "known"
	case Stale:
		return "stale"
	default:
		return "passed"
	}
}

// Names returns the cases that have one of the statuses.
func (r Report) Names(statuses ...Status) []string {
	var names []string
	for _, res := range r.Results {
		for _, s := range statuses {
			if res.Status == s {
				names = append(names, res.Case)
			}
		}
	}
	return names
}

// Err returns an error that tells every failed and stale case, or nil.
func (r Report) Err() error {
	var errs []error
	for _, res := range r.Results {
		if res.Status == Failed || res.Status == Stale {
			errs = append(errs, fmt.Errorf("conformance: %s: %s: %s", res.Case, res.Status, res.text()))
		}
	}
	return errors.Join(errs...)
}

func (r Result) text() string {
	what := strings.Join(r.Failures, "\n")
	switch r.Status {
	case Known:
		return fmt.Sprintf("known deviation (%s, %s):\n%s", r.Known.Why, r.Known.Link, what)
	case Stale:
		return fmt.Sprintf("this case passes; remove it from Harness.Known (%s, %s)", r.Known.Why, r.Known.Link)
	}
	return what
}
