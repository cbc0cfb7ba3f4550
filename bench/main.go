// Bench compares golocker with other lock libraries for Go and with what one would
// write by hand. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/golocker/golocker/bench/internal/bars"
	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
	"github.com/golocker/golocker/bench/internal/scenarios"
)

// flags are the command line.
type flags struct {
	scenarios, only, match string
	short, list            bool
	rounds, port           int
	dur, ttl               time.Duration
	out, table             string
	report, bars           string
}

func parseFlags() flags {
	var f flags
	flag.StringVar(&f.scenarios, "scenario", "all", "scenarios to run, comma-separated")
	flag.StringVar(&f.only, "only", "", "contestants to run, comma-separated globs such as 'floor/*,redsync/*'")
	flag.StringVar(&f.match, "match", "", "parameter sets to run, comma-separated: those with all words of one, such as 'goroutines=16 cs=0'")
	flag.BoolVar(&f.short, "short", false, "a selection of everything, in about two minutes")
	flag.IntVar(&f.rounds, "rounds", 0, "rounds of each measurement (0: as the scenario has it)")
	flag.DurationVar(&f.dur, "dur", 0, "window of each measurement (0: as the scenario has it)")
	flag.DurationVar(&f.ttl, "ttl", 0, "TTL of the locks in scenario held (0: 10s, or 2s with -short)")
	flag.IntVar(&f.port, "port", 22000, fmt.Sprintf("first of the %d ports for servers", scenarios.Ports))
	flag.StringVar(&f.out, "o", "", "append the samples to this file, as lines of JSON")
	flag.StringVar(&f.table, "table", "", "write the tables to this file as well")
	flag.StringVar(&f.report, "report", "", "run nothing: make tables of these files of samples, comma-separated")
	flag.StringVar(&f.bars, "bars", "", "run nothing: hold these files of samples to the bars")
	flag.BoolVar(&f.list, "list", false, "list scenarios and contestants")
	flag.Parse()
	return f
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == scenarios.WorkerFlag {
		exit(scenarios.RunWorker(os.Args[2]))
	}
	f := parseFlags()
	switch {
	case flag.NArg() > 0:
		exit(fmt.Errorf("unexpected argument %q", flag.Arg(0)))
	case f.list:
		list()
	case f.bars != "":
		exit(showBars(f))
	case f.report != "":
		exit(showTables(f))
	default:
		exit(run(f))
	}
}

// exit ends the program, with its servers.
func exit(err error) {
	harness.StopAll()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func list() {
	for _, s := range scenarios.List {
		fmt.Printf("scenario    %-32s %s\n", s.Name, s.Table.Title)
	}
	for _, c := range contestants.All() {
		fmt.Printf("contestant  %-32s %s\n", c.Name, c.Note)
	}
}

// run measures. A scenario that fails does not keep the others from running, nor
// what was measured from being shown.
func run(f flags) error {
	if !harness.Supported {
		return errors.New("measuring works on Linux only")
	}
	chosen, err := choose(f.scenarios)
	if err != nil {
		return err
	}
	var raw io.Writer
	if f.out != "" {
		file, err := os.OpenFile(f.out, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		defer file.Close()
		raw = file
	}
	rec, err := report.NewRecorder(raw, os.Stderr, describe())
	if err != nil {
		return err
	}
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-interrupted
		exit(errors.New("interrupted"))
	}()
	// Servers end with the thread that has started them: keep it.
	runtime.LockOSThread()
	env := &scenarios.Env{
		Rec: rec, Log: os.Stderr, Port: f.port, Short: f.short, TTL: f.ttl,
		Override: scenarios.Plan{Rounds: f.rounds, Window: f.dur, Match: f.match, Only: f.only},
	}
	started := time.Now()
	var errs error
	for _, s := range chosen {
		if err := s.Run(env); err != nil {
			fmt.Fprintln(os.Stderr, err)
			errs = errors.Join(errs, err)
		}
	}
	fmt.Fprintf(os.Stderr, "all took %v\n", time.Since(started).Round(time.Second))
	if errs == nil && rec.Set().Empty() {
		return errors.New("nothing was measured: -scenario, -only, -match and -short have nothing in common (-list shows scenarios and contestants)")
	}
	return errors.Join(errs, writeTables(rec.Set(), f.table))
}

// choose finds the scenarios by their names.
func choose(names string) ([]scenarios.Scenario, error) {
	if names == "all" {
		return scenarios.List, nil
	}
	var chosen []scenarios.Scenario
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(scenarios.List, func(s scenarios.Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q (-list shows them)", name)
		}
		chosen = append(chosen, scenarios.List[i])
	}
	return chosen, nil
}

// load reads files of samples.
func load(paths string) (*report.Set, error) {
	var set report.Set
	for path := range strings.SplitSeq(paths, ",") {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if err := set.Load(f); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	return &set, nil
}

// output is standard output, and the file of that name if there is one.
func output(path string) (w io.Writer, end func() error, err error) {
	if path == "" {
		return os.Stdout, func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, nil, err
	}
	return io.MultiWriter(os.Stdout, f), f.Close, nil
}

func writeTables(set *report.Set, path string) error {
	w, end, err := output(path)
	if err != nil {
		return err
	}
	err = report.WriteRuns(w, set)
	for _, s := range scenarios.List {
		err = errors.Join(err, s.Table.Write(w, set, s.Name))
	}
	return errors.Join(err, end())
}

func showTables(f flags) error {
	set, err := load(f.report)
	if err != nil {
		return err
	}
	return writeTables(set, f.table)
}

func showBars(f flags) error {
	set, err := load(f.bars)
	if err != nil {
		return err
	}
	w, end, err := output(f.table)
	if err != nil {
		return err
	}
	_, err = bars.Write(w, set)
	return errors.Join(err, end())
}
