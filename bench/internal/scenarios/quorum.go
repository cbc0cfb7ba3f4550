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
	"github.com/golocker/golocker/bench/internal/report"
)

// Locks on a quorum of five servers, all of them well or one of them not. The locker
// is connected and warm before the fault, and the fault is there before the window.

// nodes is how many servers a quorum has.
const nodes = 5

// What is wrong with one of them.
const (
	noFault = "none"
	hung    = "hung" // stopped: its connections stay open and nothing answers
	dead    = "dead" // gone: connections are refused
)

var quorumScenario = Scenario{
	Name: "quorum",
	Full: Plan{Rounds: 3, Window: 2 * time.Second},
	Short: Plan{Rounds: 1, Window: 500 * time.Millisecond, Match: "fault=none,fault=hung goroutines=1",
		Only: "redsync/goredis+failfast,redsync/rueidis+failfast,golocker/goredis+quorum,golocker/rueidis+quorum"},
	Table: report.Table{
		Title: "five servers, Lock and Unlock of keys of one's own",
		Columns: []report.Column{
			{Key: "ops", Label: "pairs/s"},
			{Key: "p50", Label: "pair p50 ms", Scale: 1e-6, Prec: 3},
			{Key: "lock_p50", Label: "Lock p50 ms", Scale: 1e-6, Prec: 3},
			{Key: "lock_p99", Label: "Lock p99 ms", Scale: 1e-6, Prec: 2},
			{Key: "unlock_p50", Label: "Unlock p50 ms", Scale: 1e-6, Prec: 3},
			{Key: "unlock_p99", Label: "Unlock p99 ms", Scale: 1e-6, Prec: 2},
			{Key: "max", Label: "longest ms", Scale: 1e-6, Pick: report.Worst},
			{Key: "cpu_us", Label: "client CPU µs/pair"},
			{Key: "srv_us", Label: "servers CPU µs/pair"},
			{Key: "goroutines", Label: "goroutines at most", Pick: report.Worst},
			{Key: "lock_errs", Label: "Lock errors", Pick: report.Ever},
			{Key: "unlock_errs", Label: "Unlock errors", Pick: report.Ever},
			{Key: "cut", Label: "cut short", Pick: report.Worst},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
		Ratios: []report.Ratio{
			{Key: "p50", Label: "p50 × redsync fail-fast, same client", To: SameClientFailFast},
			{Key: "ops", Label: "pairs/s × redsync fail-fast, same client", To: SameClientFailFast},
			{Key: "p50", Label: "p50 × all servers well", To: Healthy},
		},
	},
	run: runQuorum,
}

func quorumParams(fault string, goroutines int) string {
	return fmt.Sprintf("fault=%s goroutines=%d", fault, goroutines)
}

func parseQuorumParams(params string) (fault string, goroutines int, ok bool) {
	n, _ := fmt.Sscanf(params, "fault=%s goroutines=%d", &fault, &goroutines)
	return fault, goroutines, n == 2
}

func runQuorum(e *Env, p Plan) error {
	q := &quorum{window: p.Window, grace: 25 * time.Second}
	if e.Short {
		q.grace = 2 * time.Second
	}
	defer q.stop()
	for i := range nodes {
		s, err := harness.StartServer(e.Port + 1 + i)
		if err != nil {
			return err
		}
		q.servers = append(q.servers, s)
	}
	// Faults take turns within a round as contestants do, since they too are compared.
	for _, g := range []int{1, 16} {
		for round := range p.Rounds {
			for _, fault := range []string{noFault, hung, dead} {
				params := quorumParams(fault, g)
				for _, s := range contestants.For(contestants.UseQuorum, p.Only) {
					if !p.wants(params) || s.OneServer && fault != noFault {
						continue
					}
					err := e.measure("quorum", params, round, s, func(s contestants.Spec) (Result, error) {
						return q.measure(s, fault, g)
					})
					if err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// A quorum is the servers and how they are measured.
type quorum struct {
	servers []*harness.Server
	window  time.Duration
	grace   time.Duration // how long a pair may go on after the window, to see its length
}

func (q *quorum) stop() {
	for _, s := range q.servers {
		s.Kill()
	}
}

func (q *quorum) cpu() (seconds float64) {
	for _, s := range q.servers {
		seconds += s.ProcessCPU()
	}
	return seconds
}

// inflict does to the last server what the fault is, and heal undoes it.
func (q *quorum) inflict(fault string) error {
	switch sick := q.servers[nodes-1]; fault {
	case hung:
		return sick.Pause()
	case dead:
		sick.Kill()
	}
	return nil
}

func (q *quorum) heal(fault string) error {
	switch sick := q.servers[nodes-1]; fault {
	case hung:
		return sick.Resume()
	case dead:
		return sick.Restart()
	}
	return nil
}

// quorumWorker is one goroutine and what it has measured.
type quorumWorker struct {
	lock, unlock, pair   harness.Hist
	longest              int64 // also of what failed
	pairs                int
	lockErrs, unlockErrs int
	cut                  int
}

// run locks and unlocks keys of its own until it is told to stop. A pair that ends
// only because the fault is gone was cut short.
func (w *quorumWorker) run(l contestants.Locker, id int, stop, healed *atomic.Bool, errs *harness.Errors) {
	for k := 0; !stop.Load(); k++ {
		t0 := harness.Now()
		unlock, err := l.Lock(context.Background(), fmt.Sprintf("quorum:%d:%d", id, k))
		t1 := harness.Now()
		w.lock.Record(t1 - t0)
		if err != nil {
			w.longest = max(w.longest, t1-t0)
			w.lockErrs++
			errs.Add("lock", err)
			continue
		}
		err = unlock()
		t2 := harness.Now()
		w.unlock.Record(t2 - t1)
		w.pair.Record(t2 - t0)
		w.longest = max(w.longest, t2-t0)
		w.pairs++
		if healed.Load() {
			w.cut++
		}
		if err != nil {
			w.unlockErrs++
			errs.Add("unlock", err)
		}
	}
}

func (q *quorum) measure(s contestants.Spec, fault string, g int) (Result, error) {
	o := contestants.Options{TTL: 8 * time.Second}
	for _, srv := range q.servers {
		if err := srv.Flush(); err != nil {
			return Result{}, err
		}
		o.Addrs = append(o.Addrs, srv.Addr)
	}
	before := runtime.NumGoroutine()
	l, err := s.New(o)
	if err != nil {
		return Result{}, err
	}
	var errs harness.Errors
	q.warm(l, g, &errs)
	if err := q.inflict(fault); err != nil {
		return Result{}, err
	}
	var (
		ws           = make([]quorumWorker, g)
		wg           sync.WaitGroup
		stop, healed atomic.Bool
	)
	use0, srv0 := harness.ReadUsage(false), q.cpu()
	for i := range ws {
		wg.Go(func() { ws[i].run(l, i, &stop, &healed, &errs) })
	}
	most := mostGoroutines(q.window) - before - g
	stop.Store(true)
	finished := waitFor(&wg, q.grace)
	// What counts is all that the last pairs took: with some contestants that is far
	// more than the window.
	use1, srv1 := harness.ReadUsage(false), q.cpu()
	healed.Store(true)
	if err := q.heal(fault); err != nil {
		return Result{}, err
	}
	if !finished && !waitFor(&wg, 30*time.Second) {
		return Result{Errs: map[string]int{errStuck.Error(): 1}}, nil // their records are still being written
	}
	if err := l.Close(); err != nil {
		errs.Add("close", err)
	}
	var all quorumWorker
	for i := range ws {
		w := &ws[i]
		all.lock.Merge(&w.lock)
		all.unlock.Merge(&w.unlock)
		all.pair.Merge(&w.pair)
		all.longest = max(all.longest, w.longest)
		all.pairs += w.pairs
		all.lockErrs += w.lockErrs
		all.unlockErrs += w.unlockErrs
		all.cut += w.cut
	}
	m := all.metrics(float64(use1.At-use0.At)/1e9, use1.CPU-use0.CPU, srv1-srv0)
	m["goroutines"] = float64(most)
	m["foreign"] = harness.Foreign(use0, use1, use1.CPU-use0.CPU, srv1-srv0)
	awaitGoroutines(before, 8*time.Second)
	return Result{m, errs.ByText()}, nil
}

func (w *quorumWorker) metrics(elapsed, cpu, srvCPU float64) map[string]float64 {
	n := max(1, float64(w.pairs))
	return map[string]float64{
		"ops":      float64(w.pairs) / elapsed,
		"p50":      float64(w.pair.Quantile(.5)),
		"lock_p50": float64(w.lock.Quantile(.5)), "lock_p99": float64(w.lock.Quantile(.99)),
		"unlock_p50": float64(w.unlock.Quantile(.5)), "unlock_p99": float64(w.unlock.Quantile(.99)),
		"max":    float64(w.longest),
		"cpu_us": cpu / n * 1e6, "srv_us": srvCPU / n * 1e6,
		"lock_errs": float64(w.lockErrs), "unlock_errs": float64(w.unlockErrs),
		"cut": float64(w.cut),
	}
}

// warm runs some pairs with the same number of goroutines while all servers are well.
func (q *quorum) warm(l contestants.Locker, g int, errs *harness.Errors) {
	var wg sync.WaitGroup
	for i := range g {
		wg.Go(func() {
			for k := range 30 {
				unlock, err := l.Lock(context.Background(), fmt.Sprintf("warm:%d:%d", i, k))
				if err == nil {
					err = unlock()
				}
				if err != nil {
					errs.Add("warm-up", err)
				}
			}
		})
	}
	wg.Wait()
}

// mostGoroutines waits for d and returns how many goroutines there were at most. A
// library that leaves one behind in each call has thousands; a look now and then
// finds those. It takes two in a row: while the garbage collector frees the stacks of
// goroutines that have ended, such as those of the contestant before, they count.
func mostGoroutines(d time.Duration) int {
	most, last := 0, 0
	for end := harness.Now() + int64(d); harness.Now() < end; {
		sleepUntil(min(end, harness.Now()+int64(20*time.Millisecond)))
		n := runtime.NumGoroutine()
		most, last = max(most, min(n, last)), n
	}
	return most
}

// awaitGoroutines lets what a contestant has left behind die before the next one
// starts, or at least for a while.
func awaitGoroutines(before int, limit time.Duration) {
	for end := harness.Now() + int64(limit); runtime.NumGoroutine() > before+4 && harness.Now() < end; {
		time.Sleep(20 * time.Millisecond)
	}
}
