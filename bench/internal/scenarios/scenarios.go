// Package scenarios holds the measurements: what each contestant is made to do, and
// how that is shown. A file is a scenario, or what several have in common.
package scenarios

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// A Scenario is one kind of measurement.
type Scenario struct {
	Name  string
	Table report.Table
	Full  Plan
	Short Plan // without rounds: it is not in the short run
	run   func(*Env, Plan) error
}

// A Plan says how much of a scenario is measured.
type Plan struct {
	Rounds int
	Window time.Duration // of each measurement
	// Match are the parameter sets, separated by commas: those that have all words of
	// one of them ("goroutines=16 cs=0,cs=1ms"). Empty: all.
	Match string
	Only  string // the contestants, see [contestants.For]
}

// List is every scenario in running order.
var List = []Scenario{
	freeScenario, parallelScenario, contendScenario, procsScenario,
	heldScenario, quorumScenario, waitersScenario, stallScenario,
}

// Env is what a run is given, and what its scenarios share.
type Env struct {
	Rec      *report.Recorder
	Log      io.Writer
	Port     int           // the first of Ports
	Short    bool          // the short run
	Override Plan          // what is not zero replaces the scenario's own plan
	TTL      time.Duration // of the leases in held; 0: its default

	srv    *harness.Server // of all scenarios but quorum
	traces map[workload]map[string]float64

	measured int // how many samples there are
}

// Ports is how many ports a run uses.
const Ports = 1 + nodes

// Run runs the scenario as the environment has it. It does nothing for one that is
// not in the short run.
func (s Scenario) Run(e *Env) error {
	plan := s.Full
	if e.Short {
		plan = s.Short
	}
	if plan.Rounds == 0 {
		return nil
	}
	o := e.Override
	plan.Rounds = orDefault(o.Rounds, plan.Rounds)
	plan.Window = orDefault(o.Window, plan.Window)
	plan.Match = orDefault(o.Match, plan.Match)
	plan.Only = orDefault(o.Only, plan.Only)
	started, before := time.Now(), e.measured
	if err := s.run(e, plan); err != nil {
		return fmt.Errorf("scenario %s: %w", s.Name, err)
	}
	if e.measured == before {
		fmt.Fprintf(e.Log, "scenario %s: nothing matches %q of contestants %q\n", s.Name, plan.Match, plan.Only)
	}
	fmt.Fprintf(e.Log, "scenario %s took %v\n", s.Name, time.Since(started).Round(time.Second))
	return nil
}

func orDefault[T comparable](v, or T) T {
	var zero T
	if v == zero {
		return or
	}
	return v
}

// wants says whether a set of parameters is part of the plan.
func (p Plan) wants(params string) bool {
	if p.Match == "" {
		return true
	}
	has := strings.Fields(params)
	for alternative := range strings.SplitSeq(p.Match, ",") {
		words := strings.Fields(alternative)
		if !slices.ContainsFunc(words, func(w string) bool { return !slices.Contains(has, w) }) {
			return true
		}
	}
	return false
}

// rounds measures the cells of one parameter set: contestants take turns, so that a
// change of the machine meets all of them.
func (e *Env) rounds(p Plan, scenario, params string, use contestants.Use, measure func(contestants.Spec) (Result, error)) error {
	if !p.wants(params) {
		return nil
	}
	for round := range p.Rounds {
		for _, s := range contestants.For(use, p.Only) {
			if err := e.measure(scenario, params, round, s, measure); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Env) measure(scenario, params string, round int, s contestants.Spec, measure func(contestants.Spec) (Result, error)) error {
	e.measured++
	res, err := measure(s)
	if err != nil {
		return fmt.Errorf("[%s] %s: %w", params, s.Name, err)
	}
	return e.Rec.Add(report.Sample{
		Cell:  report.Cell{Scenario: scenario, Params: params, Contestant: s.Name},
		Round: round, M: res.M, Errs: res.Errs, Note: s.Note,
	})
}

// A Result is what one measurement comes to.
type Result struct {
	M    map[string]float64 // metrics, for the columns of the scenario's table
	Errs map[string]int     // errors by their text
}

// server starts, once, the server of the scenarios that need a single one.
func (e *Env) server() (*harness.Server, error) {
	if e.srv != nil {
		return e.srv, nil
	}
	s, err := harness.StartServer(e.Port)
	e.srv = s
	return s, err
}

// options are those of contestants on the single server.
func (e *Env) options() contestants.Options {
	return contestants.Options{Addrs: []string{e.srv.Addr}, TTL: 10 * time.Second}
}

// csText is how a time inside the lock is written in parameters.
func csText(cs time.Duration) string {
	if cs == 0 {
		return "cs=0"
	}
	return fmt.Sprintf("cs=%v", cs)
}

// sleepUntil sleeps until an instant of harness.Now.
func sleepUntil(t int64) { time.Sleep(time.Duration(t - harness.Now())) }

// errStuck is what goroutines are counted with that a lock does not let go.
var errStuck = errors.New("goroutines are still inside Lock or Unlock, long after their contexts ended")
