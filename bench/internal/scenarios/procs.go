package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// Processes of the operating system want one key.

var procsScenario = Scenario{
	Name:  "procs",
	Full:  Plan{Rounds: 3, Window: 1300 * time.Millisecond},
	Short: Plan{Rounds: 1, Window: 600 * time.Millisecond, Match: "procs=32 cs=1ms,procs=2 goroutines=16", Only: contendShort},
	Table: report.Table{
		Title: "OS processes with one goroutine each, or as many as it says, one key; cs = time inside the lock",
		Columns: append(contendColumns[:len(contendColumns):len(contendColumns)],
			report.Column{Key: "jain_procs", Label: "Jain of processes", Prec: 3}),
		Ratios: contendRatios,
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		cell := func(procs, g int, cs time.Duration) error {
			params := fmt.Sprintf("procs=%d %s", procs, csText(cs))
			if g > 1 {
				params = fmt.Sprintf("procs=%d goroutines=%d %s", procs, g, csText(cs))
			}
			return e.rounds(p, "procs", params, contestants.UseWait, func(s contestants.Spec) (Result, error) {
				return e.contendProcesses(s, procs, contention{Goroutines: g, CS: cs}, p.Window)
			})
		}
		for _, procs := range []int{2, 8, 32} {
			for _, cs := range []time.Duration{0, time.Millisecond} {
				if err := cell(procs, 1, cs); err != nil {
					return err
				}
			}
		}
		return cell(2, 16, 0)
	},
}

// procsConfig is what a worker is told first; a window follows when all are ready.
type procsConfig struct {
	Contestant string
	Options    contestants.Options
	Contention contention
	Witness    string // the file of the witness that they share
}

// procsReady is what it answers before the window.
const procsReady = "ready"

func procsWorker(in *json.Decoder, out *json.Encoder) error {
	var cfg procsConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	spec, err := contestants.ByName(cfg.Contestant)
	if err != nil {
		return err
	}
	w, err := harness.OpenWitness(cfg.Witness)
	if err != nil {
		return err
	}
	l, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	// Connected, with scripts loaded, by a key of its own.
	unlock, err := l.Lock(context.Background(), fmt.Sprint("warm", cfg.Contention.FirstID))
	if err != nil {
		return err
	}
	if err := unlock(); err != nil {
		return err
	}
	if err := out.Encode(procsReady); err != nil {
		return err
	}
	var win window
	if err := in.Decode(&win); err != nil {
		return err
	}
	seen := cfg.Contention.run(l, w, win)
	if err := out.Encode(&seen); err != nil {
		return err
	}
	return l.Close()
}

func (e *Env) contendProcesses(s contestants.Spec, procs int, c contention, d time.Duration) (Result, error) {
	inScripts, err := e.inScripts(s, 3)
	if err != nil {
		return Result{}, err
	}
	if err := e.srv.Flush(); err != nil {
		return Result{}, err
	}
	dir, err := os.MkdirTemp("", "golocker-bench-")
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	page := filepath.Join(dir, "witness")
	w, err := harness.OpenWitness(page)
	if err != nil {
		return Result{}, err
	}
	var ws []*worker
	defer func() {
		for _, w := range ws {
			w.kill()
		}
	}()
	for i := range procs {
		c.FirstID = int64(1 + i*c.Goroutines)
		w, err := startWorker("procs", procsConfig{s.Name, e.options(), c, page})
		if err != nil {
			return Result{}, err
		}
		ws = append(ws, w)
	}
	for _, w := range ws {
		var ready string
		if err := w.out.Decode(&ready); err != nil || ready != procsReady {
			return Result{}, fmt.Errorf("a worker did not start: %w", err)
		}
	}
	from := harness.Now() + int64(300*time.Millisecond)
	win := window{from, from + int64(d)}
	for _, w := range ws {
		if err := w.in.Encode(win); err != nil {
			return Result{}, err
		}
	}
	o := <-e.observe(win)
	var all contended
	var shares []float64
	for _, w := range ws {
		var seen contended
		if err := w.finish(&seen, 30*time.Second); err != nil {
			return Result{}, err
		}
		share := 0.0
		for _, n := range seen.Acquired {
			share += n
		}
		shares = append(shares, share)
		all.add(&seen)
	}
	ws = nil
	m := all.metrics(win, w)
	m["jain_procs"] = harness.Jain(shares)
	serverMetrics(m, o.info0, o.info1, inScripts)
	m["foreign"] = o.foreign(all.CPU)
	return Result{m, all.Errs}, nil
}
