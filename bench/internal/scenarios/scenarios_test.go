package scenarios

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/bench/internal/contestants"
	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/bench/internal/report"
	"github.com/golocker/golocker/internal/servertest"
)

// A worker is this program again, also where this program is a test.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == WorkerFlag {
		if err := RunWorker(os.Args[2]); err != nil {
			panic(err)
		}
		return
	}
	code := m.Run()
	harness.StopAll()
	os.Exit(code)
}

// newEnv returns an environment with servers, or skips the test.
func newEnv(t *testing.T, log io.Writer) *Env {
	t.Helper()
	if !harness.Supported {
		t.Skip("measuring works on Linux only")
	}
	servertest.Require(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	rec, err := report.NewRecorder(nil, log, report.Meta{})
	require.NoError(t, err)
	return &Env{Rec: rec, Log: log, Port: port, Override: Plan{Rounds: 1, Window: 300 * time.Millisecond}}
}

// The harness would find nothing wrong with any lock if it did not find anything
// wrong with this one.
func TestALockThatLocksNothingIsCaught(t *testing.T) {
	const nolock, lock = "selftest/nolock", "floor/blpop"
	var log bytes.Buffer
	env := newEnv(t, &log)
	env.Override.Only = nolock + "," + lock
	for _, run := range []struct {
		scenario Scenario
		params   string
	}{
		{contendScenario, "goroutines=16 cs=1ms"},
		{procsScenario, "procs=2 cs=1ms"},
		{procsScenario, "procs=2 goroutines=16 cs=0"},
	} {
		t.Run(run.scenario.Name+" "+run.params, func(t *testing.T) {
			env.Override.Match = run.params
			require.NoError(t, run.scenario.Run(env))
			broken := func(contestant string) (overlaps float64) {
				c := report.Cell{Scenario: run.scenario.Name, Params: run.params, Contestant: contestant}
				acquired, ok := env.Rec.Set().Value(c, "ops", report.Median)
				require.True(t, ok)
				assert.Positive(t, acquired)
				for _, key := range []string{"violations", "lost_updates"} {
					n, ok := env.Rec.Set().Value(c, key, report.Ever)
					require.True(t, ok)
					overlaps += n
				}
				return overlaps
			}
			assert.Positive(t, broken(nolock))
			assert.Zero(t, broken(lock))
		})
	}
	assert.Contains(t, log.String(), "MUTUAL EXCLUSION BROKEN by "+nolock)
	assert.NotContains(t, log.String(), "MUTUAL EXCLUSION BROKEN by "+lock)
}

func TestOnlyRealLocksAreMeasured(t *testing.T) {
	env := newEnv(t, io.Discard)
	_, err := env.server()
	require.NoError(t, err)

	none, err := contestants.ByName("selftest/nolock")
	require.NoError(t, err)
	_, err = env.checkReal(none)
	assert.ErrorContains(t, err, "no key on the server")

	real, err := contestants.ByName("floor/redigo")
	require.NoError(t, err)
	commands, err := env.checkReal(real)
	require.NoError(t, err)
	assert.Equal(t, "set evalsha {get del}", commands)

	twice := real
	twice.New = func(o contestants.Options) (contestants.Locker, error) {
		l, err := real.New(o)
		return &forgetful{l, 0}, err
	}
	_, err = env.checkReal(twice)
	assert.ErrorContains(t, err, "could be taken again")
}

// forgetful is a lock that forgets which key is held.
type forgetful struct {
	contestants.Locker
	calls int
}

func (f *forgetful) Lock(ctx context.Context, key string) (contestants.Unlock, error) {
	f.calls++
	return f.Locker.Lock(ctx, key+string(rune('a'+f.calls)))
}

func TestPlansChooseParameterSets(t *testing.T) {
	for _, c := range []struct {
		match, params string
		want          bool
	}{
		{"", "goroutines=16 cs=0", true},
		{"goroutines=16", "goroutines=16 cs=0", true},
		{"goroutines=1", "goroutines=16 cs=0", false},
		{"cs=0 goroutines=16", "goroutines=16 cs=0", true},
		{"cs=1ms goroutines=16", "goroutines=16 cs=0", false},
		{"cs=1ms,goroutines=16", "goroutines=16 cs=0", true},
	} {
		assert.Equal(t, c.want, Plan{Match: c.match}.wants(c.params), "%q in %q", c.match, c.params)
	}
}

func TestWhatIsComparedWithWhat(t *testing.T) {
	for _, c := range []struct {
		name string
		to   func(report.Cell) (report.Cell, bool)
		from report.Cell
		want report.Cell
		ok   bool
	}{
		{"a library and its client's floor", SameClientFloor,
			report.Cell{Scenario: "free", Params: "goroutines=1", Contestant: "redislock/goredis"},
			report.Cell{Scenario: "free", Params: "goroutines=1", Contestant: "floor/goredis"}, true},
		{"bare sockets have no client", SameClientFloor,
			report.Cell{Scenario: "free", Contestant: "floor/tcp"}, report.Cell{Scenario: "free"}, false},
		{"a PING is no lock", SameClientFloor,
			report.Cell{Contestant: "ping/goredis"}, report.Cell{Contestant: "ping/goredis"}, false},
		{"a quorum", SameClientFailFast,
			report.Cell{Scenario: "quorum", Contestant: "golocker/rueidis+fenced+quorum"},
			report.Cell{Scenario: "quorum", Contestant: "redsync/rueidis+failfast"}, true},
		{"a fault", Healthy,
			report.Cell{Params: "fault=hung goroutines=16", Contestant: "x"},
			report.Cell{Params: "fault=none goroutines=16", Contestant: "x"}, true},
		{"no fault", Healthy,
			report.Cell{Params: "fault=none goroutines=16", Contestant: "x"},
			report.Cell{Params: "fault=none goroutines=16", Contestant: "x"}, false},
	} {
		got, ok := c.to(c.from)
		assert.Equal(t, c.ok, ok, c.name)
		assert.Equal(t, c.want, got, c.name)
	}
}
