package scenarios

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
)

// Scenarios 1 and 2: nobody competes for a key.

var freeScenario = Scenario{
	Name: "free",
	Table: harness.Table{
		Title: "1 goroutine, Lock+Unlock of a free key (ping/*: one PING)",
		Columns: []harness.Column{
			{Key: "ops", Label: "pairs/s"},
			{Key: "p50", Label: "p50 us", Scale: 1e-3, Prec: 1},
			{Key: "p99", Label: "p99 us", Scale: 1e-3, Prec: 1},
			{Key: "lock_p50", Label: "Lock p50 us", Scale: 1e-3, Prec: 1},
			{Key: "unlock_p50", Label: "Unlock p50 us", Scale: 1e-3, Prec: 1},
			{Key: "allocs", Label: "allocs/pair", Prec: 1},
			{Key: "bytes", Label: "B/pair"},
			{Key: "sent", Label: "cmds sent/pair", Prec: 2},
			{Key: "lua", Label: "cmds in Lua/pair", Prec: 2},
			{Key: "net_in", Label: "wire to server B"},
			{Key: "net_out", Label: "from server B"},
			{Key: "cpu_us", Label: "client CPU us/pair", Prec: 1},
			{Key: "srv_us", Label: "server CPU us/pair", Prec: 1},
			{Key: "errors", Label: "errors"},
			{Key: "stuck", Label: "stuck on a free key", Worst: true},
			{Key: "leaked", Label: "keys leaked"},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
		RatioOf: "p50", Baseline: "floor/tcp",
	},
	Run: func(e *Env) error {
		rounds, dur := e.rounds(7, 3), e.dur(time.Second, 400*time.Millisecond)
		srv, err := e.server()
		if err != nil {
			return err
		}
		list := contestants.For(contestants.UseFree, e.Only)
		notes := map[string]string{}
		for _, s := range list {
			if s.Kind != contestants.Ping {
				n, err := wireTrace(e, srv, s)
				if err != nil {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				notes[s.Name] = n
			}
			e.luaOnly(s)
		}
		for r := range rounds {
			for _, s := range list {
				m := freeCell(e, srv, s, 1, dur)
				m.Scenario, m.Params, m.Round = "free", "goroutines=1", r
				m.Note = strings.TrimSuffix(s.Note+"; one pair on the wire: `"+notes[s.Name]+"`", "; one pair on the wire: ``")
				e.Rec.Add(m)
			}
		}
		return nil
	},
}

var parallelScenario = Scenario{
	Name: "parallel",
	Table: harness.Table{
		Title: "goroutines each with their own key, one locker",
		Columns: []harness.Column{
			{Key: "ops", Label: "pairs/s"},
			{Key: "p50", Label: "p50 us", Scale: 1e-3},
			{Key: "p99", Label: "p99 us", Scale: 1e-3},
			{Key: "cpu100k", Label: "client CPU s/100k pairs", Prec: 2},
			{Key: "srv100k", Label: "server CPU s/100k", Prec: 2},
			{Key: "allocs", Label: "allocs/pair", Prec: 1},
			{Key: "sent", Label: "cmds sent/pair", Prec: 2},
			{Key: "reads", Label: "server reads/pair", Prec: 2},
			{Key: "clients", Label: "conns"},
			{Key: "errors", Label: "errors"},
			{Key: "stuck", Label: "stuck on a free key", Worst: true},
			{Key: "leaked", Label: "keys leaked"},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
		RatioOf: "ops", Baseline: "floor/goredis",
	},
	Run: func(e *Env) error {
		rounds, dur := e.rounds(4, 2), e.dur(time.Second, 400*time.Millisecond)
		srv, err := e.server()
		if err != nil {
			return err
		}
		for _, g := range []int{16, 128, 1024} {
			params := fmt.Sprintf("goroutines=%d", g)
			if !strings.Contains(params, e.Match) {
				continue
			}
			for r := range rounds {
				for _, s := range contestants.For(contestants.UseFree, e.Only) {
					if s.Kind == contestants.Ping {
						continue
					}
					e.luaOnly(s)
					m := freeCell(e, srv, s, g, dur)
					m.Scenario, m.Params, m.Round = "parallel", params, r
					e.Rec.Add(m)
				}
			}
		}
		return nil
	},
}

// wireTrace checks that a contestant's lock is real and returns the commands of
// one warm Lock+Unlock.
func wireTrace(e *Env, srv *harness.Server, s contestants.Spec) (string, error) {
	srv.Flush()
	l, err := s.New(e.options())
	if err != nil {
		return "", err
	}
	defer l.Close()
	ctx := context.Background()
	u, err := l.Lock(ctx, "real")
	if err != nil {
		return "", err
	}
	if srv.Left() < 1 {
		return "", fmt.Errorf("holds a lock but the server has no key")
	}
	short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := l.Lock(short, "real"); err == nil {
		return "", fmt.Errorf("a held lock could be taken again")
	}
	if err := u(); err != nil {
		return "", fmt.Errorf("unlock: %w", err)
	}
	time.Sleep(20 * time.Millisecond)
	if n := srv.Left(s.Passing...); n != 0 {
		return "", fmt.Errorf("%d keys left after unlock", n)
	}
	warmPairs(l, 3)
	time.Sleep(20 * time.Millisecond)
	text, _, err := srv.Trace(func() { warmPairs(l, 1); time.Sleep(20 * time.Millisecond) })
	return text, err
}

// freeCell measures g goroutines locking and unlocking their own keys.
func freeCell(e *Env, srv *harness.Server, s contestants.Spec, g int, dur time.Duration) harness.Sample {
	out := harness.Sample{Contestant: s.Name, M: map[string]float64{}}
	srv.Flush()
	l, err := s.New(e.options())
	if err != nil {
		out.Errs = map[string]int{"new: " + err.Error(): 1}
		return out
	}
	type worker struct {
		all, lock, unlock harness.Hist
		n                 int
		_                 [64]byte
	}
	ws := make([]worker, g)
	var phase atomic.Int32 // 0 warm-up, 1 measured, 2 stop
	var errs harness.ErrCount
	var wg sync.WaitGroup
	// One cancellable context per goroutine, as a request handler would have.
	// They are cancelled only if somebody hangs after the end.
	giveUp := make(chan bool)
	var stuck atomic.Int64
	for i := range ws {
		w := &ws[i]
		keys := make([]string, 64)
		for k := range keys {
			keys[k] = fmt.Sprintf("lock:%d:%d", i, k)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() { <-giveUp; cancel() }()
		wg.Go(func() {
			for k := 0; ; k++ {
				ph := phase.Load()
				if ph == 2 {
					return
				}
				t0 := harness.Now()
				u, err := l.Lock(ctx, keys[k%len(keys)])
				if err != nil && ctx.Err() != nil {
					stuck.Add(1)
					return
				}
				if err != nil {
					errs.Add("lock", err)
					time.Sleep(time.Millisecond)
					continue
				}
				t1 := harness.Now()
				err = u()
				t2 := harness.Now()
				if err != nil {
					errs.Add("unlock", err)
					continue
				}
				if ph == 1 {
					w.all.Record(t2 - t0)
					w.lock.Record(t1 - t0)
					w.unlock.Record(t2 - t1)
					w.n++
				}
			}
		})
	}
	time.Sleep(max(dur/5, 100*time.Millisecond))
	runtime.GC()
	i0, u0 := srv.Info(), harness.ReadUsage(true)
	phase.Store(1)
	time.Sleep(dur)
	i1, u1 := srv.Info(), harness.ReadUsage(true)
	phase.Store(2)
	finished := waitFor(&wg, 3*time.Second)
	close(giveUp)
	if !finished && !waitFor(&wg, 10*time.Second) {
		errs.Add("end", errors.New("goroutines still inside Lock/Unlock 10 s after cancel"))
	}

	var all, lock, unlock harness.Hist
	n := 0.0
	for i := range ws {
		all.Merge(&ws[i].all)
		lock.Merge(&ws[i].lock)
		unlock.Merge(&ws[i].unlock)
		n += float64(ws[i].n)
	}
	el := float64(u1.T-u0.T) / 1e9
	cpu, srvCPU := u1.CPU-u0.CPU, i1.CPU-i0.CPU
	sent, lua := harness.Sent(harness.CmdDelta(i0, i1), e.trace[s.Name])
	m := out.M
	m["ops"] = n / el
	m["p50"], m["p99"] = float64(all.Quantile(.5)), float64(all.Quantile(.99))
	m["lock_p50"], m["unlock_p50"] = float64(lock.Quantile(.5)), float64(unlock.Quantile(.5))
	m["allocs"] = float64(u1.Mallocs-u0.Mallocs) / n
	m["bytes"] = float64(u1.AllocBytes-u0.AllocBytes) / n
	m["sent"], m["lua"] = sent/n, lua/n
	m["reads"] = (i1.Reads - i0.Reads) / n
	m["net_in"], m["net_out"] = (i1.NetIn-i0.NetIn)/n, (i1.NetOut-i0.NetOut)/n
	m["cpu_us"], m["srv_us"] = cpu/n*1e6, srvCPU/n*1e6
	m["cpu100k"], m["srv100k"] = cpu/n*1e5, srvCPU/n*1e5
	m["clients"] = i1.Clients - 1 // without the harness' own
	m["errors"] = float64(errs.Count())
	m["stuck"] = float64(stuck.Load()) // waiting for a free key, for over 3 s
	m["foreign"] = foreign(u0, u1, cpu, srvCPU)
	out.Errs = errs.Map()
	if s.Kind != contestants.Ping {
		time.Sleep(5 * time.Millisecond)
		m["leaked"] = float64(srv.Left(s.Passing...))
	}
	l.Close()
	return out
}
