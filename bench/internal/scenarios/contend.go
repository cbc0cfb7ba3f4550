package scenarios

import (
	"fmt"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// Many goroutines of one process want one key.

// contendShort are the contestants of the short run in contend and procs.
const contendShort = "floor/blpop,redsync/goredis+1ms,redislock/goredis+1ms,rueidislock/tuned,golocker/goredis,golocker/rueidis,golocker/redigo"

var contendScenario = Scenario{
	Name:  "contend",
	Full:  Plan{Rounds: 3, Window: 1300 * time.Millisecond},
	Short: Plan{Rounds: 1, Window: 450 * time.Millisecond, Match: "goroutines=16", Only: contendShort},
	Table: report.Table{
		Title:   "goroutines of one process, one key; cs = time inside the lock",
		Columns: contendColumns, Ratios: contendRatios,
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		for _, g := range []int{2, 16, 128} {
			for _, cs := range []time.Duration{0, time.Millisecond} {
				params := fmt.Sprintf("goroutines=%d %s", g, csText(cs))
				err := e.rounds(p, "contend", params, contestants.UseWait, func(s contestants.Spec) (Result, error) {
					return e.contend(s, contention{Goroutines: g, CS: cs, FirstID: 1}, p.Window)
				})
				if err != nil {
					return err
				}
			}
		}
		return nil
	},
}

func (e *Env) contend(s contestants.Spec, c contention, d time.Duration) (Result, error) {
	l, inScripts, err := e.fresh(s, 1)
	if err != nil {
		return Result{}, err
	}
	defer l.Close()
	if err := warmPairs(l, 2); err != nil {
		return Result{}, err
	}
	w, err := harness.NewWitness()
	if err != nil {
		return Result{}, err
	}
	from := harness.Now() + int64(max(d/5, 150*time.Millisecond))
	win := window{from, from + int64(d)}
	observed := e.observe(win)
	seen := c.run(l, w, win)
	o := <-observed
	m := seen.metrics(win, w)
	serverMetrics(m, o.info0, o.info1, inScripts)
	m["foreign"] = o.foreign(seen.CPU)
	return Result{m, seen.Errs}, nil
}

// An observation is what the server and the machine did in a window.
type observation struct {
	info0, info1 harness.Info
	use0, use1   harness.Usage
}

// observe watches the window and sends what it saw when that is over.
func (e *Env) observe(win window) <-chan observation {
	done := make(chan observation, 1)
	go func() {
		var o observation
		sleepUntil(win.From)
		o.info0, o.use0 = e.srv.Info(), harness.ReadUsage(false)
		sleepUntil(win.To)
		o.info1, o.use1 = e.srv.Info(), harness.ReadUsage(false)
		done <- o
	}()
	return done
}

// foreign is other work on the machine, when the clients used so much CPU.
func (o observation) foreign(clients float64) float64 {
	return harness.Foreign(o.use0, o.use1, clients, o.info1.CPU-o.info0.CPU)
}
