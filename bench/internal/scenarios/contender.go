package scenarios

import (
	"context"
	"sync"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// What contend and procs have in common: everybody wants one key.

// contendColumns are those of both tables. Waiting and handing over are compared
// with a queue on the server, which nothing can beat from outside.
var (
	contendColumns = []report.Column{
		{Key: "ops", Label: "acq/s"},
		{Key: "hand_p50", Label: "hand-off p50 ms", Scale: 1e-6, Prec: 3},
		{Key: "hand_p99", Label: "p99 ms", Scale: 1e-6, Prec: 2},
		{Key: "hando_p50", Label: "to another p50 ms", Scale: 1e-6, Prec: 3},
		{Key: "self", Label: "re-taken by self %", Scale: 100, Prec: 1},
		{Key: "wait_p50", Label: "wait p50 ms", Scale: 1e-6, Prec: 2},
		{Key: "wait_p99", Label: "wait p99 ms", Scale: 1e-6, Prec: 1},
		{Key: "wait_max", Label: "wait max ms", Scale: 1e-6, Pick: report.Worst},
		{Key: "jain", Label: "Jain", Prec: 3},
		{Key: "starved", Label: "got none"},
		{Key: "sent", Label: "cmds sent/acq", Prec: 1},
		{Key: "cpu_us", Label: "client CPU µs/acq", Prec: 1},
		{Key: "srv_us", Label: "server CPU µs/acq", Prec: 1},
		{Key: "giveups", Label: "errors", Pick: report.Ever},
		{Key: "violations", Label: "overlaps", Pick: report.Ever},
		{Key: "lost_updates", Label: "lost updates", Pick: report.Ever},
		{Key: "foreign", Label: "other load, cores", Prec: 2},
	}
	contendRatios = []report.Ratio{
		{Key: "ops", Label: "acq/s × floor/blpop", To: report.WithContestant("floor/blpop")},
		{Key: "hand_p50", Label: "hand-off p50 ×", To: report.WithContestant("floor/blpop")},
		{Key: "wait_p99", Label: "wait p99 ×", To: report.WithContestant("floor/blpop")},
	}
)

// hotKey is what everybody wants.
const hotKey = "hot"

// A window is the time in which acquisitions count, by harness.Now.
type window struct{ From, To int64 }

func (w window) seconds() float64 { return float64(w.To-w.From) / 1e9 }

// A contention is one process's part: so many goroutines, and how long each stays
// inside the lock.
type contention struct {
	Goroutines int
	CS         time.Duration
	FirstID    int64 // of the goroutines' ids, by which holders are told apart
}

// contended is what a process has seen. It is sent by workers.
type contended struct {
	Wait, Hand, HandOther harness.Hist
	Acquired              []float64 // by each goroutine, in the window
	Retaken, GiveUps      int
	Entries, Overlaps     int64 // in the whole time
	CPU                   float64
	Errs                  map[string]int
}

// run has the goroutines compete until the window is over.
func (c contention) run(l contestants.Locker, w *harness.Witness, win window) contended {
	cs := make([]contender, c.Goroutines)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var errs harness.Errors
	var wg sync.WaitGroup
	for i := range cs {
		cs[i] = contender{id: c.FirstID + int64(i), locker: l, witness: w, cs: c.CS, window: win, errs: &errs}
		wg.Go(func() { cs[i].run(ctx) })
	}
	sleepUntil(win.From)
	use0 := harness.ReadUsage(false)
	sleepUntil(win.To)
	use1 := harness.ReadUsage(false)
	cancel()
	if !waitFor(&wg, 15*time.Second) {
		errs.Add("end", errStuck)
		cs = nil // their records are still being written
	}
	out := contended{CPU: use1.CPU - use0.CPU, Errs: errs.ByText(), Entries: w.Entries(), Overlaps: w.Overlaps()}
	for i := range cs {
		out.Wait.Merge(&cs[i].wait)
		out.Hand.Merge(&cs[i].hand)
		out.HandOther.Merge(&cs[i].handOther)
		out.Acquired = append(out.Acquired, float64(cs[i].acquired))
		out.Retaken += cs[i].retaken
		out.GiveUps += cs[i].giveUps
	}
	return out
}

// add adds what another process has seen.
func (c *contended) add(o *contended) {
	c.Wait.Merge(&o.Wait)
	c.Hand.Merge(&o.Hand)
	c.HandOther.Merge(&o.HandOther)
	c.Acquired = append(c.Acquired, o.Acquired...)
	c.Retaken += o.Retaken
	c.GiveUps += o.GiveUps
	c.Entries += o.Entries
	c.Overlaps += o.Overlaps
	c.CPU += o.CPU
	if c.Errs == nil {
		c.Errs = map[string]int{}
	}
	for text, n := range o.Errs {
		c.Errs[text] += n
	}
}

// metrics are those of contendColumns that the clients know.
func (c *contended) metrics(win window, w *harness.Witness) map[string]float64 {
	acquired, starved := 0.0, 0.0
	for _, n := range c.Acquired {
		acquired += n
		if n == 0 {
			starved++
		}
	}
	m := map[string]float64{
		"acq": acquired, "ops": acquired / win.seconds(),
		"hand_p50": float64(c.Hand.Quantile(.5)), "hand_p99": float64(c.Hand.Quantile(.99)),
		"self":     float64(c.Retaken) / max(1, float64(c.Hand.Count())),
		"wait_p50": float64(c.Wait.Quantile(.5)), "wait_p99": float64(c.Wait.Quantile(.99)),
		"wait_max": float64(c.Wait.Max()),
		"jain":     harness.Jain(c.Acquired), "starved": starved,
		"giveups": float64(c.GiveUps),
		"cpu_us":  c.CPU / max(1, acquired) * 1e6,
		// Both checks are of the whole time, not only of the window.
		"violations": float64(c.Overlaps), "lost_updates": float64(w.Lost(c.Entries)),
	}
	if c.HandOther.Count() > 0 {
		m["hando_p50"] = float64(c.HandOther.Quantile(.5))
	}
	return m
}

// serverMetrics are those of contendColumns that the server knows.
func serverMetrics(m map[string]float64, from, to harness.Info, inScripts map[string]float64) {
	acquired := max(1, m["acq"])
	sent, scripted := harness.Calls(from, to, inScripts)
	m["sent"], m["lua"] = sent/acquired, scripted/acquired
	m["srv_us"] = (to.CPU - from.CPU) / acquired * 1e6
	m["clients"] = to.Clients - 1 // without the harness's own
}

// A contender is one goroutine.
type contender struct {
	id      int64
	locker  contestants.Locker
	witness *harness.Witness
	cs      time.Duration
	window  window
	errs    *harness.Errors

	wait, hand, handOther      harness.Hist
	acquired, retaken, giveUps int
}

// run takes and releases the lock until ctx ends.
func (c *contender) run(ctx context.Context) {
	for ctx.Err() == nil {
		wanted := harness.Now()
		unlock := c.lock(ctx)
		if unlock == nil {
			// A wait that the end cuts off counts with the length that it had reached: who
			// waits for the whole window must not be missing.
			c.wait.Record(c.window.To - max(wanted, c.window.From))
			return
		}
		got := harness.Now()
		visit := c.witness.Enter(c.id, got)
		if got >= c.window.From && got < c.window.To {
			c.count(got-wanted, visit)
		}
		if c.cs > 0 {
			time.Sleep(c.cs)
		}
		c.witness.Exit(visit)
		if err := unlock(); err != nil && ctx.Err() == nil {
			c.errs.Add("unlock", err)
			c.giveUps++
		}
	}
}

// lock calls Lock again when the library gives up. It returns nil when ctx ends.
func (c *contender) lock(ctx context.Context) contestants.Unlock {
	for {
		unlock, err := c.locker.Lock(ctx, hotKey)
		if err == nil {
			return unlock
		}
		if ctx.Err() != nil {
			return nil
		}
		c.giveUps++
		c.errs.Add("lock", err)
		time.Sleep(time.Millisecond)
	}
}

func (c *contender) count(wait int64, v harness.Visit) {
	c.acquired++
	c.wait.Record(wait)
	switch {
	case v.Handoff <= 0: // the first holder of all
		return
	case v.Retaken:
		c.retaken++
	default:
		c.handOther.Record(v.Handoff)
	}
	c.hand.Record(v.Handoff)
}
