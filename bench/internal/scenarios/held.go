package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
)

// One process holds many locks and keeps them alive.

var heldScenario = Scenario{
	Name: "held",
	Full: Plan{Rounds: 1, Window: 8 * time.Second},
	// Without rueidislock, which on a busy machine waits for free keys, for minutes.
	Short: Plan{Rounds: 1, Window: 2 * time.Second, Match: "locks=10000",
		Only: "floor/goredis,redislock/goredis,golocker/goredis,golocker/rueidis,golocker/redigo"},
	Table: report.Table{
		Title: "locks held by one process with renewal (the library's own, or a goroutine per lock every TTL/3)",
		Columns: []report.Column{
			{Key: "take", Label: "take /s"},
			{Key: "cpu_pct", Label: "client CPU %", Prec: 1},
			{Key: "srv_pct", Label: "server CPU %", Prec: 1},
			{Key: "sent_s", Label: "cmds sent/s"},
			{Key: "lua_s", Label: "in Lua/s"},
			{Key: "heap", Label: "heap+stack B/lock"},
			{Key: "rss", Label: "RSS B/lock"},
			{Key: "goroutines", Label: "goroutines"},
			{Key: "srvmem", Label: "server B/lock"},
			{Key: "late", Label: "late renewals (own count)"},
			{Key: "ttl_min", Label: "least TTL left, % of TTL", Scale: 100, Prec: 1},
			{Key: "ttl_p1", Label: "p1 TTL left %", Scale: 100, Prec: 1},
			{Key: "lost", Label: "keys lost", Pick: report.Ever},
			{Key: "gone", Label: "locks lost (unlock says not held)", Pick: report.Ever},
			{Key: "errors", Label: "errors", Pick: report.Ever},
			{Key: "free", Label: "release /s"},
			{Key: "foreign", Label: "other load, cores", Prec: 2},
		},
	},
	run: func(e *Env, p Plan) error {
		if _, err := e.server(); err != nil {
			return err
		}
		ttl := 10 * time.Second
		if e.Short {
			ttl = 2 * time.Second
		}
		ttl = orDefault(e.TTL, ttl)
		for _, n := range []int{1000, 10000, 100000} {
			params := fmt.Sprintf("locks=%d ttl=%v", n, ttl)
			err := e.rounds(p, "held", params, contestants.UseHeld, func(s contestants.Spec) (Result, error) {
				inScripts, err := e.inScripts(s, 0)
				if err != nil {
					return Result{}, err
				}
				if err := e.srv.Flush(); err != nil {
					return Result{}, err
				}
				o := e.options()
				o.TTL, o.Renew = ttl, true
				return runAlone("held", heldConfig{s.Name, o, n, p.Window, inScripts}, 3*time.Minute)
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
}

// heldConfig is what the worker is told.
type heldConfig struct {
	Contestant string
	Options    contestants.Options
	Locks      int
	Window     time.Duration
	InScripts  map[string]float64
}

// takers is how many goroutines take and release the locks.
const takers = 64

func heldWorker(in *json.Decoder, out *json.Encoder) error {
	var cfg heldConfig
	if err := in.Decode(&cfg); err != nil {
		return err
	}
	spec, control, err := lookUp(cfg.Contestant, cfg.Options)
	if err != nil {
		return err
	}
	var renewals contestants.Renewals
	cfg.Options.Stats = &renewals
	before := runtime.NumGoroutine()
	l, err := spec.New(cfg.Options)
	if err != nil {
		return err
	}
	if err := warmPairs(l, 3); err != nil {
		return err
	}
	var (
		n       = float64(cfg.Locks)
		unlocks = make([]contestants.Unlock, cfg.Locks)
		errs    harness.Errors
		m       = map[string]float64{}
	)
	heap0, rss0 := memory()
	empty := harness.MustInfo(control)
	m["take"] = forEach(cfg.Locks, func(i int) {
		unlock, err := l.Lock(context.Background(), heldPrefix+strconv.Itoa(i))
		if err != nil {
			errs.Add("lock", err)
			return
		}
		unlocks[i] = unlock
	})
	time.Sleep(200 * time.Millisecond) // rueidislock takes its third key in the background
	// A lock is one key, or three of rueidislock, or two with a counter of tokens.
	taken, err := heldKeys(control)
	if err != nil {
		return err
	}
	keys := float64(int(float64(len(taken))/n+.5)) * n
	if missing := keys - float64(len(taken)); missing > 0 {
		errs.Add("take", fmt.Errorf("%v of %v keys are missing right away", missing, keys))
	}
	// Until the renewals of the locks that were taken first are under way.
	time.Sleep(cfg.Options.TTL / 2)

	info0, use0 := harness.MustInfo(control), harness.ReadUsage(false)
	time.Sleep(cfg.Window)
	info1, use1 := harness.MustInfo(control), harness.ReadUsage(false)
	elapsed := float64(use1.At-use0.At) / 1e9
	cpu, srvCPU := use1.CPU-use0.CPU, info1.CPU-info0.CPU
	sent, scripted := harness.Calls(info0, info1, cfg.InScripts)
	m["cpu_pct"], m["srv_pct"] = cpu/elapsed*100, srvCPU/elapsed*100
	m["sent_s"], m["lua_s"] = sent/elapsed, scripted/elapsed
	m["foreign"] = harness.Foreign(use0, use1, cpu, srvCPU)
	m["srvmem"] = (info1.UsedMemory - empty.UsedMemory) / n
	m["goroutines"] = float64(runtime.NumGoroutine() - before)
	m["late"] = float64(renewals.Late.Load())

	// How close to their end leases come is the server's to say.
	stay, err := heldKeys(control)
	if err != nil {
		return err
	}
	left, err := leasesLeft(control, stay)
	if err != nil {
		return err
	}
	slices.Sort(left)
	if len(left) > 0 {
		ttl := float64(cfg.Options.TTL.Milliseconds())
		m["ttl_min"], m["ttl_p1"] = float64(left[0])/ttl, float64(left[len(left)/100])/ttl
	}
	m["lost"] = keys - float64(len(stay))
	heap1, rss1 := memory()
	m["heap"], m["rss"] = (heap1-heap0)/n, (rss1-rss0)/n

	var gone atomic.Int64
	m["free"] = forEach(cfg.Locks, func(i int) {
		if unlocks[i] == nil {
			return
		}
		if err := unlocks[i](); err != nil {
			gone.Add(1)
			errs.Add("unlock", err)
		}
	})
	m["gone"] = float64(gone.Load())
	if failed := renewals.Failed.Load(); failed > 0 {
		errs.Add("renew", fmt.Errorf("%d renewals failed", failed))
	}
	m["errors"] = float64(errs.Count())
	return out.Encode(Result{m, errs.ByText()})
}

// memory is what is in use after a collection, and what the system says.
func memory() (heap, resident float64) {
	runtime.GC()
	runtime.GC() // what finalizers have let go
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), harness.Resident()
}

// forEach calls f for each lock from several goroutines. It returns calls per second.
func forEach(locks int, f func(i int)) float64 {
	started := harness.Now()
	var next atomic.Int64
	var wg sync.WaitGroup
	for range takers {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(locks); i = next.Add(1) - 1 {
				f(int(i))
			}
		})
	}
	wg.Wait()
	return float64(locks) / (float64(harness.Now()-started) / 1e9)
}

// heldPrefix is how the names of the locks that are held begin. Others are used to warm up.
const heldPrefix = "held:"

// heldKeys returns the keys of these locks.
func heldKeys(c *harness.Conn) ([]string, error) {
	found := map[string]bool{} // SCAN may return a key twice
	for cursor := "0"; ; {
		reply, err := c.Do("SCAN", cursor, "MATCH", "*"+heldPrefix+"*", "COUNT", "2000")
		if err != nil {
			return nil, err
		}
		page, _ := reply.([]any)
		if len(page) != 2 {
			return nil, fmt.Errorf("SCAN: unexpected reply %v", reply)
		}
		keys, _ := page[1].([]any)
		for _, k := range keys {
			key, _ := k.(string)
			found[key] = true
		}
		if cursor, _ = page[0].(string); cursor == "0" {
			return slices.Collect(maps.Keys(found)), nil
		}
	}
}

// leasesLeft reads what is left of every key that runs out, in milliseconds.
func leasesLeft(c *harness.Conn, keys []string) ([]int64, error) {
	var left []int64
	for some := range slices.Chunk(keys, 2000) {
		for _, key := range some {
			c.Append("PTTL", key)
		}
		if err := c.Flush(); err != nil {
			return nil, err
		}
		for range some {
			reply, err := c.Read()
			if err != nil {
				return nil, err
			}
			if ms, _ := reply.(int64); ms > 0 {
				left = append(left, ms)
			}
		}
	}
	return left, nil
}
