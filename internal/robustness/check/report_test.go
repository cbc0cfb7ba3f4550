package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/check"
	"github.com/golocker/golocker/internal/robustness/history"
)

// once is a lock that is had once, and then by who probes.
var once = []string{"1 a asked", "3 a granted", "4 a unlocking", "5 a unlocked"}

func run(t *testing.T, r check.Round) *check.Report {
	t.Helper()
	report, err := r.Run()
	require.NoError(t, err)
	return report
}

func TestAKeyWithoutTTL(t *testing.T) {
	events := script(t, append(once, "2000 p probed probe since=1900")...)
	events = append(events, history.Event{At: 10 * ms, Since: 9 * ms, What: history.Sampled, Keys: 3, Immortal: []string{"k"}})
	report := run(t, round(files(t, events)))
	assert.Equal(t, []history.Law{history.Mortality}, laws(report.Violations))
	assert.Equal(t, 1, report.Samples)
	assert.Equal(t, 3, report.Keys)
}

func TestProbes(t *testing.T) {
	for name, c := range map[string]struct {
		probe string
		want  []history.Law
	}{
		"in time":  {"2000 p probed probe since=1900", nil},
		"too late": {"4000 p probed probe since=1900", []history.Law{history.Liveness}},
		"in vain":  {"2000 p probed probe since=1900 error=locked", []history.Law{history.Liveness}},
		"missing":  {"2000 b asked", []history.Law{history.Liveness}},
	} {
		t.Run(name, func(t *testing.T) {
			report := run(t, round(files(t, script(t, append(once, c.probe)...))))
			assert.Equal(t, c.want, laws(report.Violations), report.Violations)
		})
	}
}

func TestARoundThatProvesNothingFails(t *testing.T) {
	r := round(files(t, script(t, append(once, "2000 p probed probe since=1900")...)))
	r.LeastOperations = 2
	assert.Equal(t, []history.Law{check.Active}, laws(run(t, r).Violations))
	r.LeastOperations, r.LeastFaults = 1, 1
	assert.Equal(t, []history.Law{check.Active}, laws(run(t, r).Violations))
}

func TestReportsAddUp(t *testing.T) {
	lines := append(once, "1 p injected fault=flush", "6 p healed fault=flush", "7 b asked try", "8 b refused", "9 c asked", "2000 p probed probe since=1900")
	one := run(t, round(files(t, script(t, lines...))))
	sum := check.NewReport()
	sum.Add(one)
	sum.Add(one)
	assert.Equal(t, 6, sum.Operations)
	assert.Equal(t, 2, sum.Grants)
	assert.Equal(t, 2, sum.Refusals)
	assert.Equal(t, 2, sum.Probes)
	assert.Equal(t, map[string]int{"flush": 2}, sum.Faults)
	assert.EqualValues(t, 2, sum.Acquisition.TotalCount())
	assert.InDelta(t, 2000, sum.Acquisition.Max(), 10)
}

func TestAViolationShowsWhatHappened(t *testing.T) {
	lines := append(once, "5.5 b asked try", "6 b refused", "2000 p probed probe since=1900")
	report := run(t, round(files(t, script(t, lines...))))
	require.Len(t, report.Violations, 1)
	v := report.Violations[0]
	assert.Equal(t, history.Time(5500*time.Microsecond), v.From)
	assert.Equal(t, `honest: "k": b#1 was refused a lock that nobody had
  +0.000000s {"at":5500000,"what":"asked","worker":"b","op":1,"name":"k","mode":"fenced","try":true}
  +0.000500s {"at":6000000,"what":"refused","worker":"b","op":1,"name":"k","mode":"fenced","try":true}`, v.String())
}

func TestAHistoryThatIsMissingIsAnError(t *testing.T) {
	_, err := check.Round{Files: []string{t.TempDir() + "/none"}}.Run()
	require.Error(t, err)
}
