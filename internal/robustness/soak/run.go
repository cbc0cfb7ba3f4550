package soak

import (
	"iter"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/round"
)

// A Run is a series of rounds.
type Run struct {
	// Specs are the rounds that are to be played at once, if not those of the choice.
	Specs []round.Spec
	// Choice, Seed and Length make the rounds of a long run: no new one is begun when the
	// time is over.
	Choice Choice
	Seed   uint64
	Length time.Duration
	// Parallel is how many rounds there are at a time.
	Parallel int
	// Replay is the command that plays a round again, to which the round's text is added.
	Replay string
}

// Play plays the rounds, each as a test of its own, and returns what came of them. A round
// that fails does not keep the others from being played. What a round has left is
// deleted, unless something was wrong with it.
func (r Run) Play(t *testing.T) *Report {
	t.Helper()
	if err := r.Choice.check(); err != nil {
		t.Fatal(err)
	}
	report := newReport(r.Seed)
	next, stop := iter.Pull(r.specs())
	defer stop()
	var mu sync.Mutex
	draw := func() (round.Spec, bool) {
		mu.Lock()
		defer mu.Unlock()
		return next()
	}
	var players sync.WaitGroup
	for range r.Parallel {
		players.Go(func() {
			for spec, ok := draw(); ok; spec, ok = draw() {
				t.Run(spec.String(), func(t *testing.T) { r.round(t, spec, report) })
			}
		})
	}
	players.Wait()
	report.finish()
	if report.rounds == 0 {
		t.Errorf("no round was played; is there any fault for %+v?", r.Choice)
	}
	return report
}

func (r Run) specs() iter.Seq[round.Spec] {
	if r.Specs != nil {
		return slices.Values(r.Specs)
	}
	end := time.Now().Add(r.Length)
	return func(yield func(round.Spec) bool) {
		for spec := range r.Choice.rounds(r.Seed) {
			if time.Now().After(end) || !yield(spec) {
				return
			}
		}
	}
}

// machine is for rounds that have it for themselves; the others share it.
var machine sync.RWMutex

func (r Run) round(t *testing.T, spec round.Spec, report *Report) {
	if spec.Greedy() {
		machine.Lock()
		defer machine.Unlock()
	} else {
		machine.RLock()
		defer machine.RUnlock()
	}
	dir, err := os.MkdirTemp("", "golocker-round")
	if err != nil {
		t.Fatal(err)
	}
	var found *check.Report
	// Also if the servers cannot be started, which ends the test.
	defer func() {
		report.add(spec, found, err)
		if found == nil || len(found.Violations) > 0 {
			t.Errorf("the histories are in %s; to play the round again:\n%s'%s'", dir, r.Replay, spec)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	begun := time.Now()
	found, err = round.Play(t, spec, dir)
	if err != nil {
		t.Error(err)
	}
	if found == nil {
		return
	}
	shown := map[history.Law]int{}
	for _, v := range found.Violations {
		if shown[v.Law]++; shown[v.Law] <= mostShown {
			t.Error(v)
		}
	}
	t.Logf("%v: %d operations, %d grants, %d violations, %d more explained", time.Since(begun).Round(time.Second),
		found.Operations, found.Grants, len(found.Violations), len(found.Explained))
	for law, n := range count(found.Explained) {
		t.Logf("%d × %s", n, law)
	}
}

// mostShown is how many violations of one law are printed of a round. All are counted.
const mostShown = 3

// count counts violations by the law and what explains them.
func count(violations []check.Violation) map[string]int {
	m := map[string]int{}
	for _, v := range violations {
		m[string(v.Law)+" "+v.Explained]++
	}
	return m
}
