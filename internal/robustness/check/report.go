package check

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Report is what a round, or several, came to.
type Report struct {
	// Operations is how many attempts at a lock there were. They came to a grant, a
	// refusal, an error, or to nothing since the worker was killed.
	Operations, Grants, Refusals, Failures int
	// Faults is how often each was injected, by name.
	Faults map[string]int
	// Samples is how often the servers' keys were looked at, and Keys how many they were.
	Samples, Keys int
	// Acquisition has how many µs the calls took that were granted a lock.
	Acquisition *hdrhistogram.Histogram
	// Violations are those that nothing explains, and Explained the others.
	Violations, Explained []Violation
}

// longestWait is what the histogram of acquisitions can count.
const longestWait = time.Hour

// NewReport returns the report of no round.
func NewReport() *Report {
	return &Report{
		Faults:      map[string]int{},
		Acquisition: hdrhistogram.New(1, longestWait.Microseconds(), 3),
	}
}

// Add makes r the report of what o is about, too.
func (r *Report) Add(o *Report) {
	r.Operations += o.Operations
	r.Grants += o.Grants
	r.Refusals += o.Refusals
	r.Failures += o.Failures
	for name, n := range o.Faults {
		r.Faults[name] += n
	}
	r.Samples += o.Samples
	r.Keys += o.Keys
	r.Acquisition.Merge(o.Acquisition)
	r.Violations = append(r.Violations, o.Violations...)
	r.Explained = append(r.Explained, o.Explained...)
}
