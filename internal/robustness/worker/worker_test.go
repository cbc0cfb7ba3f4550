package worker_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/internal/robustness/resource"
	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/internal/robustness/worker"
)

func TestMain(m *testing.M) {
	worker.Main() // does not return in a worker
	os.Exit(m.Run())
}

// patience is how long a test waits for what should happen soon.
const patience = 20 * time.Second

// start starts a worker on a server of its own.
func start(t *testing.T) (*worker.Process, worker.Config) {
	t.Helper()
	dir, err := os.MkdirTemp("", "worker") // a socket's path must be short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	guarded, err := resource.Listen(filepath.Join(dir, "s"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = guarded.Close() })
	require.NoError(t, os.Mkdir(filepath.Join(dir, "left"), 0o700))
	target, err := rig.Start(t, rig.Single, rig.Needs{}).Target("w", "goredis")
	require.NoError(t, err)
	cfg := worker.Config{
		Name: "w", Target: target, Seed: 1, History: filepath.Join(dir, "w"), Resource: filepath.Join(dir, "s"),
		Parcels: filepath.Join(dir, "left"), Hands: 8, Locks: 10, TTL: 500 * time.Millisecond, Longest: time.Second, Pause: time.Millisecond,
	}
	p, err := worker.Start(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Kill() })
	return p, cfg
}

// eventually waits until the worker's history has what is wanted.
func eventually(t *testing.T, cfg worker.Config, what string, wanted func([]history.Event) bool) []history.Event {
	t.Helper()
	deadline := time.After(patience)
	for tick := time.NewTicker(20 * time.Millisecond); ; {
		var events []history.Event
		err := history.ReadFile(cfg.History, func(e history.Event) error {
			events = append(events, e)
			return nil
		})
		if err == nil && wanted(events) {
			return events
		}
		select {
		case <-deadline:
			require.FailNow(t, "the history never has "+what)
		case <-tick.C:
		}
	}
}

func TestAWorkerUsesAllKindsOfLocksAndGivesThemUpInTheEnd(t *testing.T) {
	t.Parallel()
	p, cfg := start(t)
	eventually(t, cfg, "every mode and outcome", func(events []history.Event) bool {
		had := map[history.Mode]int{}
		what := map[history.What]int{}
		tried := map[bool]int{}
		left := map[history.Operation]bool{}
		takenUp, downgraded := 0, 0
		for _, e := range events {
			what[e.What]++
			if e.What == history.Granted {
				had[e.Mode]++
				tried[e.Try]++
				if left[e.From] {
					takenUp++
				} else if e.From.Op > 0 {
					downgraded++
				}
			}
			if e.What == history.Detached && e.Error == "" {
				left[history.Operation{Worker: e.Worker, Op: e.Op}] = true
			}
		}
		return len(had) == 5 && len(tried) == 2 && what[history.Refused] > 0 && what[history.Wrote] > 0 && takenUp > 0 && downgraded > 0
	})
	p.Stop()
	require.NoError(t, p.Join(patience))

	open := map[string]map[int]history.What{}
	for _, e := range eventually(t, cfg, "any event", func(e []history.Event) bool { return len(e) > 0 }) {
		if open[e.Worker] == nil {
			open[e.Worker] = map[int]history.What{}
		}
		open[e.Worker][e.Op] = e.What
		assert.Equal(t, "goredis", e.Driver)
		assert.NotZero(t, e.At)
	}
	assert.Len(t, open, cfg.Hands)
	for hand, ops := range open {
		for op, last := range ops {
			assert.Contains(t, []history.What{history.Refused, history.Failed, history.Unlocked, history.Ended, history.Detached}, last, "%s %d", hand, op)
		}
	}
}

func TestAPausedWorkerDoesNothingUntilItGoesOnAndCanBeKilled(t *testing.T) {
	t.Parallel()
	p, cfg := start(t)
	some := func(e []history.Event) bool { return len(e) > 100 }
	eventually(t, cfg, "some events", some)
	require.NoError(t, p.Pause())
	before := eventually(t, cfg, "some events", some)
	require.NoError(t, p.Resume())
	eventually(t, cfg, "further events", func(e []history.Event) bool { return len(e) > len(before) })
	require.NoError(t, p.Pause())
	require.NoError(t, p.Kill())
	<-p.Ended()
	require.Error(t, p.Join(patience), "it did not end by itself")
}

// A busy machine has not run it until then.
func TestAWorkerThatIsKilledBeforeItHasBegunHasAHistory(t *testing.T) {
	t.Parallel()
	cfg := worker.Config{Name: "w", History: filepath.Join(t.TempDir(), "w")}
	p, err := worker.Start(cfg)
	require.NoError(t, err)
	require.NoError(t, p.Kill())
	assert.NoError(t, history.ReadFile(cfg.History, func(history.Event) error { return nil }))
}

func TestAWorkerThatCannotWorkSaysSo(t *testing.T) {
	t.Parallel()
	cfg := worker.Config{Name: "w", History: filepath.Join(t.TempDir(), "w"), Resource: "/nowhere"}
	p, err := worker.Start(cfg)
	require.NoError(t, err)
	assert.ErrorContains(t, p.Join(patience), "/nowhere")
}
