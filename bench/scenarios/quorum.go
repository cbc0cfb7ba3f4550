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

// Scenario 6: Redlock over five servers, all well, one hung (SIGSTOP: its
// connections stay open and nothing answers) or one dead (connection refused).
// The locker is connected and warm before the fault; the fault is in place
// before the window opens.

var quorumScenario = Scenario{
	Name: "quorum",
	Table: harness.Table{
		Title: "five servers, Lock+Unlock of own keys",
		Columns: []harness.Column{
			{Key: "ops", Label: "pairs/s"},
			{Key: "lock_p50", Label: "Lock p50 ms", Scale: 1e-6, Prec: 3},
			{Key: "lock_p99", Label: "Lock p99 ms", Scale: 1e-6, Prec: 2},
			{Key: "unlock_p50", Label: "Unlock p50 ms", Scale: 1e-6, Prec: 3},
			{Key: "unlock_p99", Label: "Unlock p99 ms", Scale: 1e-6, Prec: 2},
			{Key: "max", Label: "longest pair ms", Scale: 1e-6, Worst: true},
			{Key: "cpu_us", Label: "client CPU us/pair"},
			{Key: "srv_us", Label: "servers CPU us/pair"},
			{Key: "gor", Label: "goroutines left at end"},
			{Key: "lock_errs", Label: "Lock errors"},
			{Key: "unlock_errs", Label: "Unlock errors"},
			{Key: "cut", Label: "cut short", Worst: true},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
		RatioOf: "ops", Baseline: "floor/redlock-goredis",
	},
	Run: func(e *Env) error {
		var servers []*harness.Server
		defer func() {
			for _, s := range servers {
				s.Kill()
			}
		}()
		var addrs []string
		for i := range 5 {
			s, err := harness.StartServer(e.Port + 10 + i)
			if err != nil {
				return err
			}
			servers = append(servers, s)
			addrs = append(addrs, s.Addr)
		}
		for _, fault := range []string{"none", "hung", "dead"} {
			for _, g := range []int{1, 16} {
				params := fmt.Sprintf("fault=%s goroutines=%d", fault, g)
				if !strings.Contains(params, e.Match) {
					continue
				}
				rounds, dur := e.rounds(3, 1), e.dur(1500*time.Millisecond, 500*time.Millisecond)
				grace := 2 * time.Second
				if fault != "none" {
					rounds, dur = e.rounds(2, 1), e.dur(2500*time.Millisecond, 800*time.Millisecond)
					// How long a pair that is under way may go on, to see its true length.
					grace = pick(e, 0, 25*time.Second, 2*time.Second)
				}
				for r := range rounds {
					for _, s := range contestants.For(contestants.UseQuorum, e.Only) {
						if s.OneServer && fault != "none" {
							continue
						}
						m, err := quorumCell(s, servers, addrs, fault, g, dur, grace)
						if err != nil {
							return err
						}
						m.Scenario, m.Params, m.Round, m.Note = "quorum", params, r, s.Note
						e.Rec.Add(m)
					}
				}
			}
		}
		return nil
	},
}

func quorumCell(s contestants.Spec, servers []*harness.Server, addrs []string, fault string, g int, dur, grace time.Duration) (harness.Sample, error) {
	out := harness.Sample{Contestant: s.Name, M: map[string]float64{}}
	for _, srv := range servers {
		srv.Flush()
	}
	gor0 := runtime.NumGoroutine()
	l, err := s.New(contestants.Options{Addrs: addrs, TTL: 8 * time.Second})
	if err != nil {
		return out, err
	}
	// Warm up with the same concurrency, all servers well.
	var wg sync.WaitGroup
	for i := range g {
		wg.Go(func() {
			for k := range 30 {
				if u, err := l.Lock(context.Background(), fmt.Sprintf("warm:%d:%d", i, k)); err == nil {
					u()
				}
			}
		})
	}
	wg.Wait()

	sick := servers[4]
	switch fault {
	case "hung":
		if err := sick.Pause(); err != nil {
			return out, err
		}
	case "dead":
		sick.Kill()
	}
	type worker struct {
		lock, unlock, pair   harness.Hist
		n, lockErrs, unlErrs int
	}
	ws := make([]worker, g)
	var errs harness.ErrCount
	var stop, healed atomic.Bool
	var cut atomic.Int64
	srvCPU := func() (t float64) {
		for _, s := range servers {
			t += s.ProcCPU()
		}
		return t
	}
	u0, srv0 := harness.ReadUsage(false), srvCPU()
	for i := range ws {
		w := &ws[i]
		wg.Go(func() {
			ctx := context.Background()
			for k := 0; !stop.Load(); k++ {
				t0 := harness.Now()
				u, err := l.Lock(ctx, fmt.Sprintf("q:%d:%d", i, k))
				t1 := harness.Now()
				w.lock.Record(t1 - t0)
				if err != nil {
					w.lockErrs++
					errs.Add("lock", err)
					w.pair.Record(t1 - t0)
					continue
				}
				err = u()
				t2 := harness.Now()
				w.unlock.Record(t2 - t1)
				w.pair.Record(t2 - t0)
				if healed.Load() {
					cut.Add(1) // the true length would have been more
				}
				if err != nil {
					w.unlErrs++
					errs.Add("unlock", err)
				}
				w.n++
			}
		})
	}
	time.Sleep(dur)
	stop.Store(true)
	finished := waitFor(&wg, grace)
	u1, srv1 := harness.ReadUsage(false), srvCPU()
	gorEnd := runtime.NumGoroutine()
	healed.Store(true)
	switch fault {
	case "hung":
		sick.Resume()
	case "dead":
		if err := sick.Restart(); err != nil {
			return out, err
		}
	}
	if !finished && !waitFor(&wg, 30*time.Second) {
		errs.Add("end", errors.New("goroutines still inside Lock/Unlock 30 s after the fault was gone"))
	}
	l.Close()

	var lock, unlock, pair harness.Hist
	n, le, ue := 0.0, 0, 0
	for i := range ws {
		lock.Merge(&ws[i].lock)
		unlock.Merge(&ws[i].unlock)
		pair.Merge(&ws[i].pair)
		n += float64(ws[i].n)
		le += ws[i].lockErrs
		ue += ws[i].unlErrs
	}
	el := float64(u1.T-u0.T) / 1e9
	m := out.M
	m["ops"] = n / el
	m["lock_p50"], m["lock_p99"] = float64(lock.Quantile(.5)), float64(lock.Quantile(.99))
	m["unlock_p50"], m["unlock_p99"] = float64(unlock.Quantile(.5)), float64(unlock.Quantile(.99))
	m["max"] = float64(pair.Max())
	m["cpu_us"] = (u1.CPU - u0.CPU) / max(1, n) * 1e6
	m["gor"] = float64(gorEnd - gor0)
	m["lock_errs"], m["unlock_errs"] = float64(le), float64(ue)
	m["cut"] = float64(cut.Load())
	m["srv_us"] = (srv1 - srv0) / max(1, n) * 1e6
	m["foreign"] = foreign(u0, u1, u1.CPU-u0.CPU, srv1-srv0)
	out.Errs = errs.Map()
	// Let what the contestant left behind die before the next one starts.
	for deadline := time.Now().Add(8 * time.Second); runtime.NumGoroutine() > gor0+4 && time.Now().Before(deadline); {
		time.Sleep(20 * time.Millisecond)
	}
	return out, nil
}
