package scenarios

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
)

// Scenarios 3 and 4: many want one key, within one process or from several.

var contendColumns = []harness.Column{
	{Key: "ops", Label: "acq/s"},
	{Key: "hand_p50", Label: "hand-off p50 ms", Scale: 1e-6, Prec: 3},
	{Key: "hand_p99", Label: "p99 ms", Scale: 1e-6, Prec: 2},
	{Key: "hando_p50", Label: "to another p50 ms", Scale: 1e-6, Prec: 3},
	{Key: "self", Label: "re-taken by self %", Scale: 100, Prec: 1},
	{Key: "wait_p50", Label: "wait p50 ms", Scale: 1e-6, Prec: 2},
	{Key: "wait_p99", Label: "wait p99 ms", Scale: 1e-6, Prec: 1},
	{Key: "wait_max", Label: "wait max ms", Scale: 1e-6, Worst: true},
	{Key: "jain", Label: "Jain", Prec: 2},
	{Key: "starved", Label: "got none", Prec: 0},
	{Key: "sent", Label: "cmds sent/acq", Prec: 1},
	{Key: "cpu_us", Label: "client CPU us/acq"},
	{Key: "srv_us", Label: "server CPU us/acq"},
	{Key: "giveups", Label: "errors", Prec: 0},
	{Key: "violations", Label: "overlaps", Worst: true},
	{Key: "foreign", Label: "other load, cores", Prec: 2},
}

var contendScenario = Scenario{
	Name: "contend",
	Table: harness.Table{
		Title:   "goroutines of one process, one key; cs = time inside the lock",
		Columns: contendColumns, RatioOf: "ops", Baseline: "floor/blpop",
	},
	Run: func(e *Env) error {
		rounds, dur := e.rounds(3, 1), e.dur(1300*time.Millisecond, 450*time.Millisecond)
		if _, err := e.server(); err != nil {
			return err
		}
		for _, g := range []int{2, 16, 128} {
			for _, cs := range []time.Duration{0, time.Millisecond} {
				params := fmt.Sprintf("goroutines=%d cs=%v", g, cs)
				if !strings.Contains(params, e.Match) {
					continue
				}
				for r := range rounds {
					for _, s := range contestants.For(contestants.UseWait, e.Only) {
						e.luaOnly(s)
						m := contendCell(e, s, g, cs, dur)
						m.Scenario, m.Params, m.Round, m.Note = "contend", params, r, s.Note
						e.Rec.Add(m)
					}
				}
			}
		}
		return nil
	},
}

var procsScenario = Scenario{
	Name: "procs",
	Table: harness.Table{
		Title:   "OS processes with one goroutine each, one key; cs = time inside the lock",
		Columns: contendColumns, RatioOf: "ops", Baseline: "floor/blpop",
	},
	Run: func(e *Env) error {
		rounds, dur := e.rounds(3, 1), e.dur(1300*time.Millisecond, 700*time.Millisecond)
		if _, err := e.server(); err != nil {
			return err
		}
		css := []time.Duration{0, time.Millisecond}
		if e.Short {
			css = css[1:]
		}
		for _, n := range []int{2, 8, 32} {
			for _, cs := range css {
				params := fmt.Sprintf("procs=%d cs=%v", n, cs)
				if !strings.Contains(params, e.Match) {
					continue
				}
				for r := range rounds {
					for _, s := range contestants.For(contestants.UseWait, e.Only) {
						e.luaOnly(s)
						m, err := procsCell(e, s, n, cs, dur)
						if err != nil {
							return fmt.Errorf("%s %s: %w", params, s.Name, err)
						}
						m.Scenario, m.Params, m.Round, m.Note = "procs", params, r, s.Note
						e.Rec.Add(m)
					}
				}
			}
		}
		return nil
	},
}

// contender is one goroutine's record.
type contender struct {
	wait, hand, handOther harness.Hist
	acq, self, giveups    int
}

// run takes and releases the lock until ctx ends; only acquisitions stamped in
// [from, to) count. The wait of an acquisition runs from the first Lock call,
// through errors of the library, to success; a wait cut off by the end of the
// window counts with the length it had reached.
func (c *contender) run(ctx context.Context, l contestants.Locker, key string, id int64, cs time.Duration, sh *harness.Shared, from, to int64, errs *harness.ErrCount) {
	for ctx.Err() == nil {
		t0 := harness.Now()
		var unlock contestants.Unlock
		for unlock == nil {
			u, err := l.Lock(ctx, key)
			if err == nil {
				unlock = u
				break
			}
			if ctx.Err() != nil {
				c.wait.Record(to - max(t0, from))
				return
			}
			c.giveups++
			errs.Add("lock", err)
			time.Sleep(time.Millisecond)
		}
		t1 := harness.Now()
		hand, self := sh.Enter(id, t1)
		if t1 >= from && t1 < to {
			c.acq++
			c.wait.Record(t1 - t0)
			if hand > 0 {
				c.hand.Record(hand)
				if self {
					c.self++
				} else {
					c.handOther.Record(hand)
				}
			}
		}
		if cs > 0 {
			time.Sleep(cs)
		}
		sh.Exit(id)
		if err := unlock(); err != nil && ctx.Err() == nil {
			errs.Add("unlock", err)
			c.giveups++
		}
	}
}

// summarize turns contenders' records into metrics.
func summarize(m map[string]float64, wait, hand, handOther *harness.Hist, shares []float64, self, giveups, el float64) {
	acq, starved := 0.0, 0.0
	for _, s := range shares {
		acq += s
		if s == 0 {
			starved++
		}
	}
	m["acq"], m["ops"] = acq, acq/el
	m["hand_p50"], m["hand_p99"] = float64(hand.Quantile(.5)), float64(hand.Quantile(.99))
	if handOther.Count() > 0 {
		m["hando_p50"] = float64(handOther.Quantile(.5))
	}
	m["self"] = self / max(1, float64(hand.Count()))
	m["wait_p50"], m["wait_p99"] = float64(wait.Quantile(.5)), float64(wait.Quantile(.99))
	m["wait_max"] = float64(wait.Max())
	m["jain"], m["starved"], m["giveups"] = harness.Jain(shares), starved, giveups
}

func serverSide(e *Env, name string, m map[string]float64, i0, i1 harness.Info) {
	acq := max(1, m["acq"])
	sent, lua := harness.Sent(harness.CmdDelta(i0, i1), e.trace[name])
	m["sent"], m["lua"] = sent/acq, lua/acq
	m["srv_us"] = (i1.CPU - i0.CPU) / acq * 1e6
	m["clients"] = i1.Clients - 1
}

func contendCell(e *Env, s contestants.Spec, g int, cs, dur time.Duration) harness.Sample {
	out := harness.Sample{Contestant: s.Name, M: map[string]float64{}}
	e.srv.Flush()
	l, err := s.New(e.options())
	if err != nil {
		out.Errs = map[string]int{"new: " + err.Error(): 1}
		return out
	}
	defer l.Close()
	warmPairs(l, 2)
	var errs harness.ErrCount
	sh := harness.NewShared()
	cs0 := make([]contender, g)
	ctx, cancel := context.WithCancel(context.Background())
	from := harness.Now() + int64(max(dur/5, 150*time.Millisecond))
	to := from + int64(dur)
	var wg sync.WaitGroup
	for i := range cs0 {
		wg.Go(func() { cs0[i].run(ctx, l, "hot", int64(i+1), cs, sh, from, to, &errs) })
	}
	sleepUntil(from)
	i0, u0 := e.srv.Info(), harness.ReadUsage(false)
	sleepUntil(to)
	i1, u1 := e.srv.Info(), harness.ReadUsage(false)
	cancel()
	if !waitFor(&wg, 20*time.Second) {
		errs.Add("end", errors.New("goroutines still inside Lock/Unlock 20 s after cancel"))
	}
	var wait, hand, handOther harness.Hist
	shares := make([]float64, g)
	self, giveups := 0, 0
	for i := range cs0 {
		c := &cs0[i]
		wait.Merge(&c.wait)
		hand.Merge(&c.hand)
		handOther.Merge(&c.handOther)
		shares[i] = float64(c.acq)
		self += c.self
		giveups += c.giveups
	}
	m := out.M
	summarize(m, &wait, &hand, &handOther, shares, float64(self), float64(giveups), float64(to-from)/1e9)
	serverSide(e, s.Name, m, i0, i1)
	m["cpu_us"] = (u1.CPU - u0.CPU) / max(1, m["acq"]) * 1e6
	m["violations"], m["lost_updates"] = float64(sh.Violations.Load()), float64(sh.Lost())
	m["foreign"] = foreign(u0, u1, u1.CPU-u0.CPU, i1.CPU-i0.CPU)
	out.Errs = errs.Map()
	return out
}

func waitFor(wg *sync.WaitGroup, limit time.Duration) bool {
	done := make(chan bool)
	go func() { wg.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// ---- across processes ----

type procConfig struct {
	Contestant string
	Options    contestants.Options
	ID         int64
	CS         time.Duration
	ShmPath    string
}

type procGo struct{ From, To int64 }

type procResult struct {
	Wait, Hand, HandOther harness.Sparse
	Acq, Self, Giveups    int
	CPU                   float64
	Errs                  map[string]int
}

func init() { children["procs"] = procsChild }

func procsChild(in *json.Decoder) error {
	var cfg procConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	spec, err := contestants.ByName(cfg.Contestant)
	if err != nil {
		return err
	}
	sh, err := harness.MapShared(cfg.ShmPath)
	if err != nil {
		return err
	}
	l, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	// Connect and load scripts before the start signal, on a key of its own.
	u, err := l.Lock(context.Background(), fmt.Sprint("warm", cfg.ID))
	if err != nil {
		return err
	}
	if err := u(); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	out.Encode("ready")
	var g procGo
	if err := in.Decode(&g); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var c contender
	var errs harness.ErrCount
	var wg sync.WaitGroup
	wg.Go(func() { c.run(ctx, l, "hot", cfg.ID, cfg.CS, sh, g.From, g.To, &errs) })
	sleepUntil(g.From)
	u0 := harness.ReadUsage(false)
	sleepUntil(g.To)
	u1 := harness.ReadUsage(false)
	cancel()
	if !waitFor(&wg, 15*time.Second) {
		errs.Add("end", errors.New("still inside Lock/Unlock 15 s after cancel"))
	}
	out.Encode(procResult{c.wait.Sparse(), c.hand.Sparse(), c.handOther.Sparse(), c.acq, c.self, c.giveups, u1.CPU - u0.CPU, errs.Map()})
	l.Close()
	return nil
}

func procsCell(e *Env, s contestants.Spec, n int, cs, dur time.Duration) (harness.Sample, error) {
	out := harness.Sample{Contestant: s.Name, M: map[string]float64{}}
	e.srv.Flush()
	dir, err := os.MkdirTemp("", "peerbench-shm-")
	if err != nil {
		return out, err
	}
	defer os.RemoveAll(dir)
	shm := filepath.Join(dir, "shared")
	sh, err := harness.MapShared(shm)
	if err != nil {
		return out, err
	}
	var procs []*proc
	defer func() {
		for _, p := range procs {
			p.cmd.Process.Kill()
		}
	}()
	for i := range n {
		p, err := spawn("procs", procConfig{s.Name, e.options(), int64(i + 1), cs, shm})
		if err != nil {
			return out, err
		}
		procs = append(procs, p)
	}
	for _, p := range procs {
		var ready string
		if err := p.out.Decode(&ready); err != nil {
			return out, fmt.Errorf("worker did not start: %w", err)
		}
	}
	from := harness.Now() + int64(300*time.Millisecond)
	to := from + int64(dur)
	for _, p := range procs {
		p.in.Encode(procGo{from, to})
	}
	sleepUntil(from)
	i0, u0 := e.srv.Info(), harness.ReadUsage(false)
	sleepUntil(to)
	i1, u1 := e.srv.Info(), harness.ReadUsage(false)

	var wait, hand, handOther harness.Hist
	shares := make([]float64, n)
	self, giveups, cpu := 0, 0, 0.0
	out.Errs = map[string]int{}
	for i, p := range procs {
		var r procResult
		if err := p.wait(&r, 30*time.Second); err != nil {
			return out, err
		}
		wait.AddSparse(r.Wait)
		hand.AddSparse(r.Hand)
		handOther.AddSparse(r.HandOther)
		shares[i] = float64(r.Acq)
		self += r.Self
		giveups += r.Giveups
		cpu += r.CPU
		for k, v := range r.Errs {
			out.Errs[k] += v
		}
	}
	procs = nil
	m := out.M
	summarize(m, &wait, &hand, &handOther, shares, float64(self), float64(giveups), float64(to-from)/1e9)
	serverSide(e, s.Name, m, i0, i1)
	m["cpu_us"] = cpu / max(1, m["acq"]) * 1e6
	m["violations"], m["lost_updates"] = float64(sh.Violations.Load()), float64(sh.Lost())
	m["foreign"] = foreign(u0, u1, cpu, i1.CPU-i0.CPU)
	return out, nil
}
