package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/contestants"
	"github.com/golocker/golocker/bench/harness"
)

// Scenario 5: one process holds many locks and keeps them alive. Each cell runs
// in a process of its own, so that memory is not that of an earlier cell.

var heldScenario = Scenario{
	Name: "held",
	Table: harness.Table{
		Title: "locks held by one process with renewal (the library's own, or a goroutine per lock every TTL/3)",
		Columns: []harness.Column{
			{Key: "take", Label: "take /s"},
			{Key: "cpu_pct", Label: "client CPU %", Prec: 1},
			{Key: "srv_pct", Label: "server CPU %", Prec: 1},
			{Key: "sent_s", Label: "cmds sent/s"},
			{Key: "lua_s", Label: "in Lua/s"},
			{Key: "heap", Label: "heap+stack B/lock"},
			{Key: "rss", Label: "RSS B/lock"},
			{Key: "gor", Label: "goroutines/lock", Prec: 2},
			{Key: "srvmem", Label: "server B/lock"},
			{Key: "late", Label: "late renewals (own count)"},
			{Key: "ttl_min", Label: "least TTL left, % of TTL", Scale: 100, Prec: 1},
			{Key: "ttl_p1", Label: "p1 TTL left %", Scale: 100, Prec: 1},
			{Key: "lost", Label: "keys lost", Worst: true},
			{Key: "gone", Label: "locks lost (unlock says not held)", Worst: true},
			{Key: "errors", Label: "errors", Worst: true},
			{Key: "free", Label: "release /s"},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
	},
	Run: func(e *Env) error {
		rounds := e.rounds(1, 1)
		ttl := pick(e, e.TTL, 10*time.Second, 2*time.Second)
		window := e.dur(8*time.Second, 2*time.Second)
		ns := []int{1000, 10000, 100000}
		if e.Short {
			ns = ns[1:2]
		}
		srv, err := e.server()
		if err != nil {
			return err
		}
		for _, n := range ns {
			params := fmt.Sprintf("locks=%d ttl=%v", n, ttl)
			if !strings.Contains(params, e.Match) {
				continue
			}
			for r := range rounds {
				for _, s := range contestants.For(contestants.UseHeld, e.Only) {
					e.luaOnly(s)
					srv.Flush()
					out := harness.Sample{Scenario: "held", Params: params, Contestant: s.Name, Round: r, Note: s.Note}
					o := e.options()
					o.TTL, o.Renew = ttl, true
					p, err := spawn("held", heldConfig{s.Name, o, n, window, e.trace[s.Name]})
					if err != nil {
						return err
					}
					var res heldResult
					if err := p.wait(&res, 3*time.Minute); err != nil {
						res = heldResult{M: map[string]float64{}, Errs: map[string]int{"worker: " + err.Error(): 1}}
					}
					out.M, out.Errs = res.M, res.Errs
					e.Rec.Add(out)
				}
			}
		}
		return nil
	},
}

type heldConfig struct {
	Contestant string
	Options    contestants.Options
	N          int
	Window     time.Duration
	LuaOnly    map[string]bool
}

type heldResult struct {
	M    map[string]float64
	Errs map[string]int
}

func init() { children["held"] = heldChild }

// takers is how many goroutines take and release the locks.
const takers = 64

func heldChild(in *json.Decoder) error {
	var cfg heldConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	spec, err := contestants.ByName(cfg.Contestant)
	if err != nil {
		return err
	}
	var stats contestants.RenewStats
	cfg.Options.Stats = &stats
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
	dbsize := func() float64 {
		v, _ := ctl.Do("DBSIZE")
		n, _ := v.(int64)
		return float64(n)
	}
	l, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	if err := warmPairs(l, 3); err != nil {
		return err
	}
	n := float64(cfg.N)
	var errs harness.ErrCount
	m := map[string]float64{}
	unlocks := make([]contestants.Unlock, cfg.N)
	memory := func() (heap, rss float64) {
		runtime.GC()
		runtime.GC()
		var ms runtime.MemStats
		runtime.ReadMemStats(&ms)
		return float64(ms.HeapAlloc + ms.StackInuse), harness.RSS()
	}
	each := func(f func(i int)) float64 {
		t0 := harness.Now()
		var next atomic.Int64
		var wg sync.WaitGroup
		for range takers {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(cfg.N); i = next.Add(1) - 1 {
					f(int(i))
				}
			})
		}
		wg.Wait()
		return n / (float64(harness.Now()-t0) / 1e9)
	}

	heap0, rss0 := memory()
	gor0 := runtime.NumGoroutine()
	before := info()
	m["take"] = each(func(i int) {
		u, err := l.Lock(context.Background(), fmt.Sprintf("held:%d", i))
		if err != nil {
			errs.Add("lock", err)
			return
		}
		unlocks[i] = u
	})
	time.Sleep(200 * time.Millisecond)       // rueidislock takes its third key in the background
	perLock := float64(int(dbsize()/n + .5)) // 1 key per lock, or 3
	if short := n*perLock - dbsize(); short > 0 {
		errs.Add("take", fmt.Errorf("%v of %v keys missing right after taking", short, n*perLock))
	}
	expired0 := before.Expired
	// Let the renewals of the locks taken first get under way.
	time.Sleep(cfg.Options.TTL / 2)

	i0, u0 := info(), harness.ReadUsage(false)
	time.Sleep(cfg.Window)
	i1, u1 := info(), harness.ReadUsage(false)
	el := float64(u1.T-u0.T) / 1e9
	sent, lua := harness.Sent(harness.CmdDelta(i0, i1), cfg.LuaOnly)
	m["cpu_pct"] = (u1.CPU - u0.CPU) / el * 100
	m["srv_pct"] = (i1.CPU - i0.CPU) / el * 100
	m["sent_s"], m["lua_s"] = sent/el, lua/el
	m["foreign"] = foreign(u0, u1, u1.CPU-u0.CPU, i1.CPU-i0.CPU)
	m["srvmem"] = (i1.UsedMemory - before.UsedMemory) / n
	m["gor"] = float64(runtime.NumGoroutine()-gor0) / n
	m["late"] = float64(stats.Late.Load())
	m["renewed"] = float64(stats.Done.Load())

	// The server's own view of how close to expiry the locks have come.
	left := ttlsLeft(ctl)
	slices.Sort(left)
	if len(left) > 0 {
		t := cfg.Options.TTL.Seconds() * 1e3
		m["ttl_min"], m["ttl_p1"] = left[0]/t, left[len(left)/100]/t
	}
	m["lost"] = n*perLock - dbsize()
	m["expired"] = info().Expired - expired0
	heap1, rss1 := memory()
	m["heap"], m["rss"] = (heap1-heap0)/n, (rss1-rss0)/n

	var gone atomic.Int64
	m["free"] = each(func(i int) {
		if unlocks[i] == nil {
			return
		}
		if err := unlocks[i](); err != nil {
			gone.Add(1)
			errs.Add("unlock", err)
		}
	})
	m["gone"] = float64(gone.Load())
	if e := stats.Errs.Load(); e > 0 {
		errs.Add("renew", fmt.Errorf("%d renewals failed", e))
	}
	m["errors"] = float64(errs.Count()) + float64(stats.Errs.Load())
	return json.NewEncoder(os.Stdout).Encode(heldResult{m, errs.Map()})
}

// ttlsLeft reads PTTL of every key, in milliseconds.
func ttlsLeft(c *harness.Conn) []float64 {
	var out []float64
	cursor := "0"
	for {
		v, err := c.Do("SCAN", cursor, "COUNT", "2000")
		page, ok := v.([]any)
		if err != nil || !ok || len(page) != 2 {
			return out
		}
		cursor, _ = page[0].(string)
		keys, _ := page[1].([]any)
		for _, k := range keys {
			c.Append("PTTL", k.(string))
		}
		c.Flush()
		for range keys {
			if v, err := c.Read(); err == nil {
				if ms, ok := v.(int64); ok && ms >= 0 {
					out = append(out, float64(ms))
				}
			}
		}
		if cursor == "0" {
			return out
		}
	}
}
