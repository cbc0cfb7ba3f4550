package scenarios

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
)

// The measurement that free and parallel share.

// keysEach is how many keys each goroutine uses in turn.
const keysEach = 64

// What goroutines are told to do.
const (
	warmUp int32 = iota
	measure
	stop
)

// pairWorker is one goroutine and what it has measured.
type pairWorker struct {
	all, lock, unlock harness.Hist
}

// run locks and unlocks keys until it is told to stop. It returns true if it could
// not, because ctx ended in a Lock.
func (w *pairWorker) run(ctx context.Context, l contestants.Locker, keys []string, phase *atomic.Int32, errs *harness.Errors) (stuck bool) {
	for i := 0; ; i++ {
		now := phase.Load()
		if now == stop {
			return false
		}
		t0 := harness.Now()
		unlock, err := l.Lock(ctx, keys[i%len(keys)])
		if err != nil {
			if ctx.Err() != nil {
				return true
			}
			errs.Add("lock", err)
			time.Sleep(time.Millisecond)
			continue
		}
		t1 := harness.Now()
		err = unlock()
		t2 := harness.Now()
		if err != nil {
			errs.Add("unlock", err)
			continue
		}
		if now == measure {
			w.all.Record(t2 - t0)
			w.lock.Record(t1 - t0)
			w.unlock.Record(t2 - t1)
		}
	}
}

// pairs measures g goroutines that lock and unlock keys of their own.
func (e *Env) pairs(s contestants.Spec, g int, window time.Duration) (Result, error) {
	l, inScripts, err := e.fresh(s, 0)
	if err != nil {
		return Result{}, err
	}
	defer l.Close()
	var (
		ws    = make([]pairWorker, g)
		phase atomic.Int32
		errs  harness.Errors
		wg    sync.WaitGroup
		stuck atomic.Int64
	)
	// A context for each goroutine, as a request has one. Sharing one would have
	// contestants meet in it that never meet otherwise.
	patience, giveUp := context.WithCancel(context.Background())
	defer giveUp()
	for i := range ws {
		keys := make([]string, keysEach)
		for k := range keys {
			keys[k] = fmt.Sprintf("lock:%d:%d", i, k)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		context.AfterFunc(patience, cancel)
		wg.Go(func() {
			if ws[i].run(ctx, l, keys, &phase, &errs) {
				stuck.Add(1)
			}
		})
	}
	time.Sleep(max(window/5, 100*time.Millisecond))
	runtime.GC()
	info0, use0 := e.srv.Info(), harness.ReadUsage(true)
	phase.Store(measure)
	time.Sleep(window)
	info1, use1 := e.srv.Info(), harness.ReadUsage(true)
	phase.Store(stop)
	// The keys are free: whoever now waits for longer than this has been forgotten.
	finished := waitFor(&wg, 3*time.Second)
	giveUp()
	if !finished && !waitFor(&wg, 10*time.Second) {
		errs.Add("end", errStuck)
	}

	var all, lock, unlock harness.Hist
	for i := range ws {
		all.Merge(&ws[i].all)
		lock.Merge(&ws[i].lock)
		unlock.Merge(&ws[i].unlock)
	}
	n := float64(all.Count())
	cpu, srvCPU := use1.CPU-use0.CPU, info1.CPU-info0.CPU
	sent, scripted := harness.Calls(info0, info1, inScripts)
	m := map[string]float64{
		"ops": n / (float64(use1.At-use0.At) / 1e9),
		"p50": float64(all.Quantile(.5)), "p99": float64(all.Quantile(.99)),
		"lock_p50": float64(lock.Quantile(.5)), "unlock_p50": float64(unlock.Quantile(.5)),
		"allocs": float64(use1.Mallocs-use0.Mallocs) / n,
		"bytes":  float64(use1.AllocBytes-use0.AllocBytes) / n,
		"sent":   sent / n, "lua": scripted / n,
		"reads":  (info1.Reads - info0.Reads) / n,
		"net_in": (info1.NetIn - info0.NetIn) / n, "net_out": (info1.NetOut - info0.NetOut) / n,
		"cpu_us": cpu / n * 1e6, "srv_us": srvCPU / n * 1e6,
		"cpu100k": cpu / n * 1e5, "srv100k": srvCPU / n * 1e5,
		"clients": info1.Clients - 1, // without the harness's own
		"errors":  float64(errs.Count()),
		"stuck":   float64(stuck.Load()),
		"foreign": harness.Foreign(use0, use1, cpu, srvCPU),
	}
	if s.Locks() {
		time.Sleep(5 * time.Millisecond) // some delete their keys after Unlock has returned
		left, err := e.srv.Left(s.Passing...)
		if err != nil {
			return Result{}, err
		}
		m["leaked"] = float64(left)
	}
	return Result{m, errs.ByText()}, nil
}
