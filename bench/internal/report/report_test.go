package report

import (
	"bytes"
	"flag"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files")

var table = Table{
	Title: "a lock is taken",
	Columns: []Column{
		{Key: "ops", Label: "acq/s"},
		{Key: "p50", Label: "p50 µs", Scale: 1e-3, Prec: 1},
		{Key: "wait_max", Label: "wait max ms", Scale: 1e-6, Pick: Worst},
		{Key: "violations", Label: "overlaps", Pick: Ever},
	},
	Ratios: []Ratio{
		{Key: "ops", Label: "acq/s × floor", To: WithContestant("floor")},
		{Key: "allocs", Label: "allocs above floor", To: WithContestant("floor"), Above: true},
		{Key: "ops", Label: "× nobody", To: WithContestant("nobody")},
	},
}

func cell(params, contestant string) Cell { return Cell{"contend", params, contestant} }

// record makes a run of two contestants, one of which is disturbed in its second
// round and broken in it.
func record(t *testing.T, raw io.Writer) *Set {
	t.Helper()
	rec, err := NewRecorder(raw, io.Discard, Meta{
		Time: "2026-11-21T20:00:00Z", Args: []string{"-scenario", "contend"}, Go: "go1.26", Server: "Redis 7",
		System: "linux/amd64", CPU: "a processor", CPUs: 2, Load: 0.25, Deps: map[string]string{"example.com/lock": "v1.2.3"},
	})
	require.NoError(t, err)
	add := func(params, contestant string, round int, errs map[string]int, m map[string]float64) {
		require.NoError(t, rec.Add(Sample{
			Cell: cell(params, contestant), Round: round, M: m, Errs: errs, Note: "note of " + contestant,
		}))
	}
	add("goroutines=2", "floor", 0, nil, map[string]float64{"ops": 1000, "p50": 1500, "wait_max": 2e6, "violations": 0, "allocs": 2})
	add("goroutines=2", "lock", 0, nil, map[string]float64{"ops": 500, "p50": 3000, "wait_max": 5e6, "violations": 0, "allocs": 12})
	add("goroutines=2", "floor", 1, nil, map[string]float64{"ops": 2000, "p50": 1600, "wait_max": 3e6, "violations": 0, "allocs": 2})
	add("goroutines=2", "lock", 1, map[string]int{"lock: refused": 2}, map[string]float64{"ops": 10, "p50": 9e6, "wait_max": 9e9, "violations": 4, "allocs": 12, "foreign": 1.5})
	add("goroutines=2", "floor", 2, nil, map[string]float64{"ops": 1000, "p50": 1700, "wait_max": 4e6, "violations": 0, "allocs": 2})
	add("goroutines=2", "lock", 2, nil, map[string]float64{"ops": 700, "p50": 3200, "wait_max": 6e6, "violations": 0, "allocs": 13})
	add("goroutines=16", "lock", 0, map[string]int{"lock: refused": 1}, map[string]float64{"ops": 100, "p50": math.NaN()})
	return rec.Set()
}

func TestTables(t *testing.T) {
	var raw, got bytes.Buffer
	set := record(t, &raw)
	require.NoError(t, WriteRuns(&got, set))
	require.NoError(t, table.Write(&got, set, "contend"))
	golden(t, "tables.md", got.Bytes())

	var loaded Set
	require.NoError(t, loaded.Load(&raw))
	got.Reset()
	require.NoError(t, WriteRuns(&got, &loaded))
	require.NoError(t, table.Write(&got, &loaded, "contend"))
	golden(t, "tables.md", got.Bytes())
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, got, 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestADisturbedRoundCountsForPromisesOnly(t *testing.T) {
	set := record(t, nil)
	lock := cell("goroutines=2", "lock")
	for pick, want := range map[Pick]float64{Median: 0, Worst: 0, Ever: 4, Least: 0} {
		v, ok := set.Value(lock, "violations", pick)
		assert.True(t, ok)
		assert.Equal(t, want, v)
	}
	undisturbed, all := set.Rounds(lock)
	assert.Equal(t, [2]int{2, 3}, [2]int{undisturbed, all})
}

func TestQuotientsAreOfTheSameRound(t *testing.T) {
	set := record(t, nil)
	// 500/1000 and 700/1000, where that of medians over rounds would be 600/1000 too,
	// but with the disturbed round 10/2000 as well.
	v, ok := set.Quotient(cell("goroutines=2", "lock"), cell("goroutines=2", "floor"), "ops")
	assert.True(t, ok)
	assert.InDelta(t, 0.6, v, 1e-9)
	_, ok = set.Quotient(cell("goroutines=16", "lock"), cell("goroutines=16", "floor"), "ops")
	assert.False(t, ok, "the floor was not measured there")
}

// What differs between runs must not become a ratio.
func TestQuotientsAreOfTheSameRun(t *testing.T) {
	var set Set
	for _, run := range []string{
		`{"meta":{}}
{"scenario":"contend","params":"p","contestant":"floor","round":0,"m":{"ops":100}}
{"scenario":"contend","params":"p","contestant":"lock","round":0,"m":{"ops":50}}`,
		`{"meta":{}}
{"scenario":"contend","params":"p","contestant":"floor","round":0,"m":{"ops":1000}}
{"scenario":"contend","params":"p","contestant":"lock","round":0,"m":{"ops":500}}`,
	} {
		require.NoError(t, set.Load(strings.NewReader(run)))
	}
	v, ok := set.Quotient(cell("p", "lock"), cell("p", "floor"), "ops")
	assert.True(t, ok)
	assert.InDelta(t, 0.5, v, 1e-9)
	assert.Len(t, set.Runs, 2)
}

func TestBrokenExclusionIsSaidAtOnce(t *testing.T) {
	var log bytes.Buffer
	rec, err := NewRecorder(nil, &log, Meta{})
	require.NoError(t, err)
	require.NoError(t, rec.Add(Sample{Cell: cell("p", "lock"), M: map[string]float64{"lost_updates": 1}}))
	assert.Contains(t, log.String(), "MUTUAL EXCLUSION BROKEN by lock")
}

func TestWhatIsNoSampleIsAnError(t *testing.T) {
	var set Set
	assert.ErrorContains(t, set.Load(strings.NewReader("{\"meta\":{}}\nnonsense")), "samples:")
}
