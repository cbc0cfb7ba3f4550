package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/round"
)

// A Report is what a run came to.
type Report struct {
	seed  uint64
	begun time.Time
	took  time.Duration

	mu       sync.Mutex
	rounds   int
	failed   []string // rounds
	total    *check.Report
	byDriver map[string]*check.Report
}

func newReport(seed uint64) *Report {
	return &Report{seed: seed, begun: time.Now(), total: check.NewReport(), byDriver: map[string]*check.Report{}}
}

// add counts a round in.
func (r *Report) add(spec round.Spec, found *check.Report, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rounds++
	if found == nil || err != nil || len(found.Violations) > 0 {
		r.failed = append(r.failed, spec.String())
	}
	if found == nil {
		return
	}
	driver := strings.Join(spec.Drivers, "+")
	if r.byDriver[driver] == nil {
		r.byDriver[driver] = check.NewReport()
	}
	r.byDriver[driver].Add(found)
	r.total.Add(found)
}

func (r *Report) finish() { r.took = time.Since(r.begun) }

// injected returns how often a fault met a driver.
func (r *Report) injected(driver, fault string) int {
	if r.byDriver[driver] == nil {
		return 0
	}
	return r.byDriver[driver].Faults[fault]
}

// Write writes the report for people to read.
func (r *Report) Write(out io.Writer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }
	t := r.total
	line("seed\t%d", r.seed)
	line("time\t%v", r.took.Round(time.Second))
	line("rounds\t%d, %d of them failed", r.rounds, len(r.failed))
	line("operations\t%d", t.Operations)
	line("grants\t%d", t.Grants)
	line("refusals, errors\t%d, %d", t.Refusals, t.Failures)
	line("leases left to other workers\t%d, of which %d were taken up", t.Left, t.TakenUp)
	line("downgrades\t%d", t.Downgraded)
	line("waiters whose order was judged\t%d", t.Queued)
	line("locks had in the end\t%d", t.Probes)
	line("the machine had no time\t%v in all rounds", t.Starved.Round(time.Second))
	line("leases too entangled to be put in order\t%d", t.Unjudged)
	line("samples of keys\t%d of %d keys", t.Samples, t.Keys)
	line("faults\t%d kinds, injected %d times", len(t.Faults), sum(t.Faults))
	line("violations\t%d, and %d that a fault explains", len(t.Violations), len(t.Explained))
	line("acquisition\tp50 %v, p99 %v, p99.9 %v, longest %v", quantile(t, 50), quantile(t, 99), quantile(t, 99.9), quantile(t, 100))

	drivers := slices.Sorted(maps.Keys(r.byDriver))
	line("faults that met all three drivers\t%d kinds", r.met())
	line("\nfault\t%s\t", strings.Join(drivers, "\t"))
	for _, fault := range slices.Sorted(maps.Keys(t.Faults)) {
		cells := make([]string, len(drivers))
		for i, d := range drivers {
			cells[i] = fmt.Sprint(r.byDriver[d].Faults[fault])
		}
		line("%s\t%s\t", fault, strings.Join(cells, "\t"))
	}
	for _, list := range []struct {
		title      string
		violations []check.Violation
	}{{"violations", t.Violations}, {"explained violations", t.Explained}} {
		if len(list.violations) == 0 {
			continue
		}
		line("\n%s\t", list.title)
		counts := count(list.violations)
		for _, what := range slices.Sorted(maps.Keys(counts)) {
			line("%d\t%s", counts[what], what)
		}
	}
	if len(r.failed) > 0 {
		line("\nfailed rounds\t")
		for _, spec := range r.failed {
			line("%s", spec)
		}
	}
	return w.Flush()
}

// met returns how many faults every driver has met.
func (r *Report) met() (n int) {
	for fault := range r.total.Faults {
		everyone := true
		for _, d := range Drivers {
			everyone = everyone && (d == mix || r.injected(d, fault) > 0)
		}
		if everyone {
			n++
		}
	}
	return n
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

func quantile(r *check.Report, q float64) time.Duration {
	return time.Duration(r.Acquisition.ValueAtQuantile(q)) * time.Microsecond
}
