package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// Many goroutines of one process wait for a key that a stranger holds: another locker,
// with connections of its own. First what waiting costs, then, when the stranger lets
// go, how fast they get their turns.

// waiters is how many wait.
const waiters = 1000

var waitersScenario = Scenario{
	Name: "waiters",
	Full: Plan{Rounds: 2, Window: 10 * time.Second},
	Short: Plan{Rounds: 1, Window: time.Second,
		Only: "floor/blpop,redislock/goredis+1ms,rueidislock/tuned,golocker/goredis,golocker/rueidis,golocker/redigo"},
	Table: report.Table{
		Title: fmt.Sprintf("%d goroutines wait for one key, then it is released and each takes it once", waiters),
		Columns: []report.Column{
			{Key: "sent_s", Label: "cmds sent/s", Prec: 1},
			{Key: "lua_s", Label: "in Lua/s", Prec: 1},
			{Key: "cpu_pct", Label: "client CPU %", Prec: 1},
			{Key: "srv_pct", Label: "server CPU %", Prec: 1},
			{Key: "clients", Label: "conns"},
			{Key: "heap", Label: "heap+stack B/waiter"},
			{Key: "goroutines", Label: "goroutines/waiter", Prec: 2},
			{Key: "giveups", Label: "gave up in window", Pick: report.Worst},
			{Key: "wake", Label: "release to first holder ms", Scale: 1e-6, Prec: 2},
			{Key: "drain", Label: "drain acq/s"},
			{Key: "drained", Label: "of them drained"},
			{Key: "drain_sent", Label: "drain cmds/acq", Prec: 1},
			{Key: "cancel", Label: "cancel the rest ms", Scale: 1e-6, Prec: 1},
			{Key: "violations", Label: "overlaps", Pick: report.Ever},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		drain := 2 * time.Second
		if e.Short {
			drain = 700 * time.Millisecond
		}
		params := fmt.Sprintf("waiters=%d", waiters)
		return e.rounds(p, "waiters", params, contestants.UseWait, func(s contestants.Spec) (Result, error) {
			inScripts, err := e.inScripts(s, 3)
			if err != nil {
				return Result{}, err
			}
			if err := e.srv.Flush(); err != nil {
				return Result{}, err
			}
			o := e.options()
			o.TTL = time.Minute // the stranger does not renew, whatever the contestant
			return runAlone("waiters", waitersConfig{s.Name, o, p.Window, drain, inScripts}, 2*time.Minute)
		})
	},
}

// waitersConfig is what the worker is told.
type waitersConfig struct {
	Contestant    string
	Options       contestants.Options
	Window, Drain time.Duration
	InScripts     map[string]float64
}

// A crowd is those who wait.
type crowd struct {
	locker  contestants.Locker
	witness *harness.Witness
	errs    harness.Errors
	wg      sync.WaitGroup
	// How many have had the lock, and when the first and the last one took it.
	acquired, first, last atomic.Int64
	giveUps               atomic.Int64
}

// wait is one of them: it takes the lock once.
func (c *crowd) wait(ctx context.Context, id int64) {
	for ctx.Err() == nil {
		unlock, err := c.locker.Lock(ctx, hotKey)
		if err != nil {
			if ctx.Err() == nil {
				c.giveUps.Add(1)
				c.errs.Add("lock", err)
				time.Sleep(time.Millisecond)
			}
			continue
		}
		now := harness.Now()
		visit := c.witness.Enter(id, now)
		c.first.CompareAndSwap(0, now)
		c.last.Store(now)
		c.acquired.Add(1)
		c.witness.Exit(visit)
		if err := unlock(); err != nil && ctx.Err() == nil {
			c.errs.Add("unlock", err)
		}
		return
	}
}

func waitersWorker(in *json.Decoder, out *json.Encoder) error {
	var cfg waitersConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	spec, control, err := lookUp(cfg.Contestant, cfg.Options)
	if err != nil {
		return err
	}
	stranger, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	release, err := stranger.Lock(context.Background(), hotKey)
	if err != nil {
		return err
	}
	l, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	if err := warmPairs(l, 3); err != nil {
		return err
	}
	w, err := harness.NewWitness()
	if err != nil {
		return err
	}
	m := map[string]float64{}
	heap0, _ := memory()
	goroutines0 := runtime.NumGoroutine()
	c := &crowd{locker: l, witness: w}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range waiters {
		c.wg.Go(func() { c.wait(ctx, int64(i+1)) })
	}
	time.Sleep(time.Second) // until everybody waits
	heap1, _ := memory()
	m["heap"] = (heap1 - heap0) / waiters
	m["goroutines"] = float64(runtime.NumGoroutine()-goroutines0) / waiters

	info0, use0, gave0 := harness.MustInfo(control), harness.ReadUsage(false), c.giveUps.Load()
	time.Sleep(cfg.Window)
	info1, use1, gave1 := harness.MustInfo(control), harness.ReadUsage(false), c.giveUps.Load()
	early := c.acquired.Load() // the stranger has held it all the time
	elapsed := float64(use1.At-use0.At) / 1e9
	cpu, srvCPU := use1.CPU-use0.CPU, info1.CPU-info0.CPU
	sent, scripted := harness.Calls(info0, info1, cfg.InScripts)
	m["sent_s"], m["lua_s"] = sent/elapsed, scripted/elapsed
	m["cpu_pct"], m["srv_pct"] = cpu/elapsed*100, srvCPU/elapsed*100
	m["clients"] = info1.Clients - 2 // without the harness's own
	m["giveups"] = float64(gave1 - gave0)
	m["foreign"] = harness.Foreign(use0, use1, cpu, srvCPU)

	released := harness.Now()
	if err := release(); err != nil {
		c.errs.Add("the stranger's unlock", err)
	}
	// To the last one's turn, if all have had theirs.
	until := released + int64(cfg.Drain)
	if waitFor(&c.wg, cfg.Drain) {
		until = c.last.Load()
	}
	drained := float64(c.acquired.Load())
	info2 := harness.MustInfo(control)
	if first := c.first.Load(); first > 0 {
		m["wake"] = float64(first - released)
	}
	m["drained"], m["drain"] = drained, drained/(float64(until-released)/1e9)
	sent, _ = harness.Calls(info1, info2, cfg.InScripts)
	m["drain_sent"] = sent / max(1, drained)

	cancelled := harness.Now()
	cancel()
	if !waitFor(&c.wg, 20*time.Second) {
		c.errs.Add("end", errStuck)
	}
	m["cancel"] = float64(harness.Now() - cancelled)
	m["violations"] = float64(early + w.Overlaps())
	m["lost_updates"] = float64(w.Lost(w.Entries()))
	return out.Encode(Result{m, c.errs.ByText()})
}
