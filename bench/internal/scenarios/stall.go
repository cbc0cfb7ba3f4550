package scenarios

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// The server freezes for a tenth of a second, three times, while goroutines lock free
// keys of their own: a long script, a fork, a page that is swapped in. Afterwards
// everybody should be able to lock again, and no key should be left behind.

const (
	stallGoroutines = 16
	stalls          = 3
	stallTime       = 100 * time.Millisecond
	stallPause      = 200 * time.Millisecond // before, between and after
)

var stallScenario = Scenario{
	Name: "stall",
	Full: Plan{Rounds: 2, Window: stalls*(stallTime+stallPause) + stallPause},
	Table: report.Table{
		Title: fmt.Sprintf("%d goroutines on free keys of their own while the server freezes %d × %v", stallGoroutines, stalls, stallTime),
		Columns: []report.Column{
			{Key: "pairs", Label: "pairs done"},
			{Key: "max", Label: "longest pair ms", Scale: 1e-6},
			{Key: "lock_errs", Label: "Lock errors", Pick: report.Ever},
			{Key: "unlock_errs", Label: "Unlock errors", Pick: report.Ever},
			{Key: "stuck", Label: fmt.Sprintf("stuck on a free key > 3 s (of %d)", stallGoroutines), Pick: report.Ever},
			{Key: "leaked", Label: "keys left behind", Pick: report.Ever},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		params := fmt.Sprintf("goroutines=%d", stallGoroutines)
		return e.rounds(p, "stall", params, contestants.UseFree, e.stall)
	},
}

// stalled is what the goroutines have seen.
type stalled struct {
	pairs, longest, lockErrs, unlockErrs, stuck atomic.Int64
	errs                                        harness.Errors
}

// run locks and unlocks keys until it is told to stop, or ctx ends in a Lock.
func (s *stalled) run(ctx context.Context, l contestants.Locker, id int, stop *atomic.Bool) {
	for k := 0; !stop.Load(); k++ {
		started := harness.Now()
		unlock, err := l.Lock(ctx, fmt.Sprintf("stall:%d:%d", id, k%8))
		if err != nil && ctx.Err() != nil {
			s.stuck.Add(1)
			return
		}
		if err != nil {
			s.lockErrs.Add(1)
			s.errs.Add("lock", err)
			continue
		}
		if err := unlock(); err != nil {
			s.unlockErrs.Add(1)
			s.errs.Add("unlock", err)
		}
		s.pairs.Add(1)
		for took := harness.Now() - started; ; {
			if most := s.longest.Load(); took <= most || s.longest.CompareAndSwap(most, took) {
				break
			}
		}
	}
}

func (e *Env) stall(s contestants.Spec) (Result, error) {
	if err := e.srv.Flush(); err != nil {
		return Result{}, err
	}
	l, err := s.New(e.options())
	if err != nil {
		return Result{}, err
	}
	defer l.Close()
	if err := warmPairs(l, 3); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		seen stalled
		stop atomic.Bool
		wg   sync.WaitGroup
	)
	info0, use0 := e.srv.Info(), harness.ReadUsage(false)
	for i := range stallGoroutines {
		wg.Go(func() { seen.run(ctx, l, i, &stop) })
	}
	for range stalls {
		time.Sleep(stallPause)
		if err := e.srv.Pause(); err != nil {
			return Result{}, err
		}
		time.Sleep(stallTime)
		if err := e.srv.Resume(); err != nil {
			return Result{}, err
		}
	}
	time.Sleep(stallPause)
	info1, use1 := e.srv.Info(), harness.ReadUsage(false)
	stop.Store(true)
	finished := waitFor(&wg, 3*time.Second)
	cancel()
	if !finished && !waitFor(&wg, 10*time.Second) {
		seen.errs.Add("end", errStuck)
	}
	time.Sleep(100 * time.Millisecond) // what is being released in the background
	left, err := e.srv.Left(s.Passing...)
	if err != nil {
		return Result{}, err
	}
	return Result{map[string]float64{
		"pairs": float64(seen.pairs.Load()), "max": float64(seen.longest.Load()),
		"lock_errs": float64(seen.lockErrs.Load()), "unlock_errs": float64(seen.unlockErrs.Load()),
		"stuck": float64(seen.stuck.Load()), "leaked": float64(left),
		"foreign": harness.Foreign(use0, use1, use1.CPU-use0.CPU, info1.CPU-info0.CPU),
	}, seen.errs.ByText()}, nil
}
