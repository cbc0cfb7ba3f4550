package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
)

// Scenario 7: a thousand goroutines of one process wait for a key that another
// locker holds (its own connections, so it is a stranger to the waiters). First
// the cost of waiting, then, after the holder lets go, how fast the crowd drains.

const waiters = 1000

var waitersScenario = Scenario{
	Name: "waiters",
	Table: harness.Table{
		Title: "1000 goroutines blocked on one held key, then released and drained for 2 s",
		Columns: []harness.Column{
			{Key: "sent_s", Label: "cmds sent/s"},
			{Key: "lua_s", Label: "in Lua/s"},
			{Key: "cpu_pct", Label: "client CPU %", Prec: 1},
			{Key: "srv_pct", Label: "server CPU %", Prec: 1},
			{Key: "clients", Label: "conns"},
			{Key: "heap", Label: "heap+stack B/waiter"},
			{Key: "gor", Label: "goroutines/waiter", Prec: 2},
			{Key: "giveups", Label: "gave up in window"},
			{Key: "wake", Label: "release to first holder ms", Scale: 1e-6, Prec: 2},
			{Key: "drain", Label: "drain acq/s"},
			{Key: "drain_sent", Label: "drain cmds/acq", Prec: 1},
			{Key: "cancel", Label: "cancel all ms", Scale: 1e-6, Prec: 1},
			{Key: "violations", Label: "overlaps", Worst: true},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
	},
	Run: func(e *Env) error {
		rounds, dur := e.rounds(2, 1), e.dur(10*time.Second, 1500*time.Millisecond)
		srv, err := e.server()
		if err != nil {
			return err
		}
		params := fmt.Sprintf("waiters=%d window=%v", waiters, dur)
		for r := range rounds {
			for _, s := range contestants.For(contestants.UseWait, e.Only) {
				e.luaOnly(s)
				srv.Flush()
				o := e.options()
				o.TTL = time.Minute
				drain := pick(e, 0, 2*time.Second, 700*time.Millisecond)
				p, err := spawn("waiters", waitersConfig{s.Name, o, dur, drain, e.trace[s.Name]})
				if err != nil {
					return err
				}
				var res heldResult
				if err := p.wait(&res, 2*time.Minute); err != nil {
					res = heldResult{M: map[string]float64{}, Errs: map[string]int{"worker: " + err.Error(): 1}}
				}
				e.Rec.Add(harness.Sample{Scenario: "waiters", Params: params, Contestant: s.Name, Round: r, M: res.M, Errs: res.Errs, Note: s.Note})
			}
		}
		return nil
	},
}

type waitersConfig struct {
	Contestant    string
	Options       contestants.Options
	Window, Drain time.Duration
	LuaOnly       map[string]bool
}

func init() { children["waiters"] = waitersChild }

func waitersChild(in *json.Decoder) error {
	var cfg waitersConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	spec, err := contestants.ByName(cfg.Contestant)
	if err != nil {
		return err
	}
	ctl, err := harness.Dial(cfg.Options.Addrs[0])
	if err != nil {
		return err
	}
	info := func() harness.Info {
		i, err := harness.ReadInfo(ctl)
		if err != nil {
			panic(err)
		}
		return i
	}
	holder, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	unlock, err := holder.Lock(context.Background(), "hot")
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
	runtime.GC()
	var ms0, ms1 runtime.MemStats
	runtime.ReadMemStats(&ms0)
	gor0 := runtime.NumGoroutine()

	var errs harness.ErrCount
	var wg sync.WaitGroup
	var acquired, giveups, first atomic.Int64
	sh := harness.NewShared()
	ctx, cancel := context.WithCancel(context.Background())
	for i := range waiters {
		wg.Go(func() {
			for ctx.Err() == nil {
				u, err := l.Lock(ctx, "hot")
				if err != nil {
					if ctx.Err() == nil {
						giveups.Add(1)
						errs.Add("lock", err)
						time.Sleep(time.Millisecond)
					}
					continue
				}
				now := harness.Now()
				first.CompareAndSwap(0, now)
				sh.Enter(int64(i+1), now)
				acquired.Add(1)
				sh.Exit(int64(i + 1))
				if err := u(); err != nil && ctx.Err() == nil {
					errs.Add("unlock", err)
				}
				return // each waiter wants it once
			}
		})
	}
	time.Sleep(time.Second) // everybody has queued
	runtime.GC()
	runtime.ReadMemStats(&ms1)
	m := map[string]float64{}
	m["heap"] = (float64(ms1.HeapAlloc+ms1.StackInuse) - float64(ms0.HeapAlloc+ms0.StackInuse)) / waiters
	m["gor"] = float64(runtime.NumGoroutine()-gor0) / waiters

	i0, u0, g0 := info(), harness.ReadUsage(false), giveups.Load()
	time.Sleep(cfg.Window)
	i1, u1, g1 := info(), harness.ReadUsage(false), giveups.Load()
	if acquired.Load() > 0 {
		m["violations"] += float64(acquired.Load()) // the key was held all along
	}
	el := float64(u1.T-u0.T) / 1e9
	sent, lua := harness.Sent(harness.CmdDelta(i0, i1), cfg.LuaOnly)
	m["sent_s"], m["lua_s"] = sent/el, lua/el
	m["cpu_pct"], m["srv_pct"] = (u1.CPU-u0.CPU)/el*100, (i1.CPU-i0.CPU)/el*100
	m["clients"] = i1.Clients - 2 // without the harness' two
	m["giveups"] = float64(g1 - g0)
	m["foreign"] = foreign(u0, u1, u1.CPU-u0.CPU, i1.CPU-i0.CPU)

	// Release, and see how the crowd drains.
	t0 := harness.Now()
	if err := unlock(); err != nil {
		errs.Add("holder unlock", err)
	}
	done := make(chan bool)
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(cfg.Drain):
	}
	i2, t1, got := info(), harness.Now(), float64(acquired.Load())
	if f := first.Load(); f > 0 {
		m["wake"] = float64(f - t0)
	}
	m["drain"] = got / (float64(t1-t0) / 1e9)
	sent, _ = harness.Sent(harness.CmdDelta(i1, i2), cfg.LuaOnly)
	m["drain_sent"] = sent / max(1, got)

	// Cancel who is left.
	t2 := harness.Now()
	cancel()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		errs.Add("end", fmt.Errorf("goroutines still inside Lock 20 s after cancel"))
	}
	m["cancel"] = float64(harness.Now() - t2)
	m["violations"] += float64(sh.Violations.Load())
	m["lost_updates"] = float64(sh.Lost())
	return json.NewEncoder(os.Stdout).Encode(heldResult{m, errs.Map()})
}
