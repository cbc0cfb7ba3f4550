package bars

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/report"
	"github.com/golocker/golocker/bench/internal/scenarios"
)

func TestBarsAreMetOrMissed(t *testing.T) {
	rec, err := report.NewRecorder(nil, io.Discard, report.Meta{})
	require.NoError(t, err)
	for contestant, m := range map[string]map[string]float64{
		"floor/goredis":           {"p50": 100, "allocs": 20},
		"golocker/goredis":        {"p50": 105, "allocs": 31},
		"golocker/goredis+fenced": {"p50": 112.1},
	} {
		require.NoError(t, rec.Add(report.Sample{Cell: report.Cell{Scenario: "free", Params: "goroutines=1", Contestant: contestant}, M: m}))
	}
	var out bytes.Buffer
	n, err := write(&out, rec.Set(), list[:3])
	require.NoError(t, err)
	assert.Equal(t, Count{Met: 1, Missed: 2, Unmeasured: 6}, n)
	for _, line := range []string{
		"| free | goroutines=1 | golocker/goredis | p50 × hand-written on the client | ≤ 1.05 | 1.050 | met |",
		"| free | goroutines=1 | golocker/goredis | allocations above hand-written | ≤ 10 | 11.0 | **missed** |",
		"| free | goroutines=1 | golocker/goredis+fenced | p50 × hand-written on the client | ≤ 1.12 | 1.121 | **missed** |",
		"| free | goroutines=1 | golocker/redigo | p50 × hand-written on the client | ≤ 1.05 | - | not measured |",
		"1 met, 2 missed, 6 not measured.",
	} {
		assert.Contains(t, strings.Split(out.String(), "\n"), line)
	}
}

func TestAQuorumIsComparedWithItselfAndWithRedsync(t *testing.T) {
	rec, err := report.NewRecorder(nil, io.Discard, report.Meta{})
	require.NoError(t, err)
	for _, s := range []struct {
		params, contestant string
		m                  map[string]float64
	}{
		{"fault=none goroutines=1", "redsync/rueidis+failfast", map[string]float64{"p50": 50}},
		{"fault=none goroutines=1", "golocker/rueidis+quorum", map[string]float64{"p50": 54}},
		{"fault=hung goroutines=1", "golocker/rueidis+quorum", map[string]float64{"p50": 81, "goroutines": 40}},
	} {
		require.NoError(t, rec.Add(report.Sample{Cell: report.Cell{Scenario: "quorum", Params: s.params, Contestant: s.contestant}, M: s.m}))
	}
	var out bytes.Buffer
	_, err = Write(&out, rec.Set())
	require.NoError(t, err)
	for _, line := range []string{
		"| quorum | fault=none goroutines=1 | golocker/rueidis+quorum | p50 × redsync fail-fast on the client | ≤ 1.1 | 1.080 | met |",
		"| quorum | fault=hung goroutines=1 | golocker/rueidis+quorum | p50 × all servers well | ≤ 1.15 | 1.500 | **missed** |",
		"| quorum | fault=hung goroutines=1 | golocker/rueidis+quorum | goroutines at most | ≤ 200 | 40.0 | met |",
	} {
		assert.Contains(t, strings.Split(out.String(), "\n"), line)
	}
}

// A bar on something that is never measured would stay "not measured" unnoticed.
func TestEveryBarIsOnSomethingThatIsMeasured(t *testing.T) {
	for _, r := range list {
		assert.True(t, slices.ContainsFunc(scenarios.List, func(s scenarios.Scenario) bool { return s.Name == r.scenario }), r.scenario)
		for _, name := range r.contestants {
			s, err := contestants.ByName(name)
			require.NoError(t, err)
			for _, base := range []string{s.SameClientFloor(), s.SameClientFailFast()} {
				_, err := contestants.ByName(base)
				assert.NoError(t, err)
			}
		}
	}
}
