// Command peerbench compares Redis lock libraries for Go. See README.md.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
	"github.com/golocker/golocker/bench/scenarios"
)

func main() {
	var (
		which   = flag.String("scenario", "all", "comma-separated scenarios to run: free, parallel, contend, procs, held, quorum, waiters, stall, or all")
		short   = flag.Bool("short", false, "quick look: each scenario in under a minute")
		rounds  = flag.Int("rounds", 0, "rounds per cell (0: the scenario's default)")
		dur     = flag.Duration("dur", 0, "measured window per cell (0: the scenario's default)")
		ttl     = flag.Duration("ttl", 0, "lease of the locks in scenario held (0: 10s, or 2s with -short)")
		only    = flag.String("only", "", "contestants to run, comma-separated globs such as 'floor/*,redsync/*'")
		match   = flag.String("match", "", "only parameter sets containing this text, such as 'goroutines=16'")
		port    = flag.Int("port", 22000, "first port; port..port+14 are used")
		outPath = flag.String("o", "", "append raw samples (JSON lines) to this file")
		table   = flag.String("table", "", "write the tables (Markdown) to this file as well as stdout")
		report  = flag.String("report", "", "run nothing: render tables from these sample files (comma-separated)")
		list    = flag.Bool("list", false, "list scenarios and contestants")
		child   = flag.String("child", "", "internal: worker mode")
	)
	flag.Parse()
	if *child != "" {
		fail(scenarios.RunChild(*child))
		return
	}
	if *list {
		printList()
		return
	}
	if *report != "" {
		var all []harness.Sample
		for f := range strings.SplitSeq(*report, ",") {
			fh, err := os.Open(f)
			fail(err)
			s, err := harness.Load(fh)
			fail(err)
			all = append(all, s...)
		}
		tables(all, *table)
		return
	}

	var raw io.Writer
	if *outPath != "" {
		f, err := os.OpenFile(*outPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		fail(err)
		defer f.Close()
		raw = f
		fmt.Fprintf(f, "%s\n", meta())
	}
	fmt.Fprintf(os.Stderr, "%s\n", meta())
	sig := make(chan os.Signal, 1)
	signal.Notify(sig, os.Interrupt, syscall.SIGTERM)
	go func() { <-sig; harness.StopAll(); os.Exit(1) }()
	// Servers are started from this thread with a parent-death signal, which is
	// tied to the starting thread: keep it alive.
	runtime.LockOSThread()
	defer harness.StopAll()

	env := &scenarios.Env{Rec: harness.NewRecorder(raw), Port: *port, Short: *short, Rounds: *rounds, Dur: *dur, TTL: *ttl, Only: *only, Match: *match}
	start := time.Now()
	for _, s := range scenarios.List {
		if *which != "all" && !strings.Contains(","+*which+",", ","+s.Name+",") {
			continue
		}
		t0 := time.Now()
		if err := s.Run(env); err != nil {
			fmt.Fprintf(os.Stderr, "scenario %s: %v\n", s.Name, err)
		}
		fmt.Fprintf(os.Stderr, "scenario %s took %v\n", s.Name, time.Since(t0).Round(time.Second))
	}
	fmt.Fprintf(os.Stderr, "all took %v\n", time.Since(start).Round(time.Second))
	tables(env.Rec.Samples(), *table)
}

func tables(samples []harness.Sample, path string) {
	w := io.Writer(os.Stdout)
	if path != "" {
		f, err := os.Create(path)
		fail(err)
		defer f.Close()
		w = io.MultiWriter(w, f)
	}
	for _, s := range scenarios.List {
		harness.Render(w, s.Name, s.Table, samples)
	}
}

func printList() {
	for _, s := range scenarios.List {
		fmt.Printf("scenario  %-10s %s\n", s.Name, s.Table.Title)
	}
	for _, c := range contestants.All() {
		fmt.Printf("contestant  %-32s %s\n", c.Name, c.Note)
	}
}

// meta is one JSON line that says what was measured and where.
func meta() string {
	m := map[string]any{
		"time": time.Now().UTC().Format(time.RFC3339), "go": runtime.Version(),
		"cpus": runtime.NumCPU(), "load1": harness.LoadAvg(), "args": os.Args[1:],
	}
	if v, err := exec.Command("redis-server", "--version").Output(); err == nil {
		m["redis"] = strings.TrimSpace(string(v))
	}
	deps := map[string]string{}
	if bi, ok := debug.ReadBuildInfo(); ok {
		for _, d := range bi.Deps {
			if d.Replace != nil {
				d.Version = d.Replace.Version
			}
			deps[d.Path] = d.Version
		}
	}
	m["deps"] = deps
	b, _ := json.Marshal(map[string]any{"meta": m})
	return string(b)
}

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
