package check

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/golocker/golocker/internal/robustness/history"
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
	// Probes is how often a lock was asked for when all faults were healed.
	Probes int
	// Queued is how many waiters waited for so long, and so undisturbed, that the order in
	// which they were served could be judged.
	Queued int
	// Left is how many leases were detached, TakenUp how many of them were taken up, and
	// Downgraded how many went on from writing to reading.
	Left, TakenUp, Downgraded int
	// Unjudged is how many leases were too entangled to be put in one order in time.
	Unjudged int
	// Starved is for how long the machine had no time for who only wanted to wake up.
	Starved time.Duration
	// Acquisition has how many µs the calls took that were granted a lock.
	Acquisition *hdrhistogram.Histogram
	// Violations are those that nothing explains, and Explained the others.
	Violations, Explained []Violation
}

func (r *Report) faults() int {
	sum := 0
	for _, n := range r.Faults {
		sum += n
	}
	return sum
}

func (r *Report) count(a *attempt, e history.Event) {
	switch e.What {
	case history.Asked:
		r.Operations++
	case history.Granted:
		r.Grants++
		// It is within what the histogram takes.
		_ = r.Acquisition.RecordValue(min(e.At.Sub(a.asked), longestWait).Microseconds())
	case history.Refused:
		r.Refusals++
	case history.Failed:
		r.Failures++
	}
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
	r.Starved += o.Starved
	r.Samples += o.Samples
	r.Keys += o.Keys
	r.Probes += o.Probes
	r.Queued += o.Queued
	r.Left += o.Left
	r.TakenUp += o.TakenUp
	r.Downgraded += o.Downgraded
	r.Unjudged += o.Unjudged
	r.Acquisition.Merge(o.Acquisition)
	r.Violations = append(r.Violations, o.Violations...)
	r.Explained = append(r.Explained, o.Explained...)
}
