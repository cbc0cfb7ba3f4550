package scenarios

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
)

// Scenario 8 (extra): the server freezes for a tenth of a second, three times,
// while 16 goroutines lock and unlock free keys of their own: a long Lua script,
// a fork, a swapped page. Afterwards everybody should be able to lock again and
// no key should be left behind.

var stallScenario = Scenario{
	Name: "stall",
	Table: harness.Table{
		Title: "16 goroutines on own free keys while the server freezes 3 x 100 ms",
		Columns: []harness.Column{
			{Key: "pairs", Label: "pairs done"},
			{Key: "max", Label: "longest pair ms", Scale: 1e-6},
			{Key: "lock_errs", Label: "Lock errors", Worst: true},
			{Key: "unlock_errs", Label: "Unlock errors", Worst: true},
			{Key: "stuck", Label: "stuck on a free key > 3 s (of 16)", Worst: true},
			{Key: "leaked", Label: "keys left behind", Worst: true},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
	},
	Run: func(e *Env) error {
		srv, err := e.server()
		if err != nil {
			return err
		}
		for r := range e.rounds(2, 1) {
			for _, s := range contestants.For(contestants.UseFree, e.Only) {
				if s.Kind == contestants.Ping {
					continue
				}
				m := stallCell(e, srv, s)
				m.Scenario, m.Params, m.Round = "stall", "goroutines=16", r
				e.Rec.Add(m)
			}
		}
		return nil
	},
}

func stallCell(e *Env, srv *harness.Server, s contestants.Spec) harness.Sample {
	const g = 16
	out := harness.Sample{Contestant: s.Name, M: map[string]float64{}}
	srv.Flush()
	l, err := s.New(e.options())
	if err != nil {
		out.Errs = map[string]int{"new: " + err.Error(): 1}
		return out
	}
	warmPairs(l, 3)
	ctx, cancel := context.WithCancel(context.Background())
	var stop atomic.Bool
	var pairs, longest, lockErrs, unlockErrs, stuck atomic.Int64
	var errs harness.ErrCount
	var wg sync.WaitGroup
	i0, u0 := srv.Info(), harness.ReadUsage(false)
	for i := range g {
		wg.Go(func() {
			for k := 0; !stop.Load(); k++ {
				t0 := harness.Now()
				u, err := l.Lock(ctx, fmt.Sprintf("stall:%d:%d", i, k%8))
				if err != nil && ctx.Err() != nil {
					stuck.Add(1)
					return
				}
				if err != nil {
					lockErrs.Add(1)
					errs.Add("lock", err)
					continue
				}
				if err := u(); err != nil {
					unlockErrs.Add(1)
					errs.Add("unlock", err)
				}
				pairs.Add(1)
				for d := harness.Now() - t0; ; {
					if m := longest.Load(); d <= m || longest.CompareAndSwap(m, d) {
						break
					}
				}
			}
		})
	}
	for range 3 {
		time.Sleep(200 * time.Millisecond)
		srv.Pause()
		time.Sleep(100 * time.Millisecond)
		srv.Resume()
	}
	time.Sleep(200 * time.Millisecond)
	i1, u1 := srv.Info(), harness.ReadUsage(false)
	stop.Store(true)
	ok := waitFor(&wg, 3*time.Second)
	cancel()
	if !ok && !waitFor(&wg, 10*time.Second) {
		errs.Add("end", errors.New("goroutines still inside Lock/Unlock 10 s after cancel"))
	}
	time.Sleep(100 * time.Millisecond)
	m := out.M
	m["pairs"], m["max"] = float64(pairs.Load()), float64(longest.Load())
	m["lock_errs"], m["unlock_errs"] = float64(lockErrs.Load()), float64(unlockErrs.Load())
	m["stuck"] = float64(stuck.Load())
	m["leaked"] = float64(srv.Left(s.Passing...))
	m["foreign"] = foreign(u0, u1, u1.CPU-u0.CPU, i1.CPU-i0.CPU)
	out.Errs = errs.Map()
	l.Close()
	return out
}
