package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// What scripts can tell apart by the exit code alone.
func TestRunExitCodes(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t, servertest.Config("user", "weak", "on", "nopass", "~*", "&*", "+@all", "-set", "-eval", "-evalsha"))
	url := "redis://" + server.Addr
	c := observer(t, url)
	hold(t, c, "held")
	hold(t, c, "rw", locker.ForWriting())
	_, err := server.Do("SET", "foreign", "for ever")
	require.NoError(t, err)
	notProgram := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(notProgram, []byte("no program"), 0o600))
	noFormat := filepath.Join(t.TempDir(), "image")
	require.NoError(t, os.WriteFile(noFormat, []byte("no program"), 0o700))
	sh := func(script string) []string { return []string{"run", "free", "--", "sh", "-c", script} }
	for name, test := range map[string]struct {
		url  string
		args []string
		code int
		says string
	}{
		"success":            {url, []string{"run", "free", "--", "true"}, 0, ""},
		"the command's own":  {url, sh("exit 7"), 7, ""},
		"255 of the command": {url, sh("exit 255"), 255, ""},
		"killed by a signal": {url, sh("kill -KILL $$"), 137, ""},
		"killed by INT":      {url, sh("kill -INT $$"), 130, ""},
		"not in time":        {url, []string{"run", "--wait", "3.5", "held", "--", "true"}, 75, "wait timeout"}, // long enough to hear that it is held
		"not at all":         {url, []string{"run", "-n", "held", "--", "true"}, 75, "is locked by"},
		"wait 0":             {url, []string{"run", "--timeout", "0", "held", "--", "true"}, 75, "is locked by"},
		"nb":                 {url, []string{"run", "--nb", "held", "--", "true"}, 75, "is locked by"},
		"as flock -E":        {url, []string{"run", "-n", "-E", "1", "held", "--", "true"}, 1, "is locked by"},
		"another kind":       {url, []string{"run", "rw", "--", "true"}, 65, "read-write lock"},
		"foreign":            {url, []string{"run", "foreign", "--", "true"}, 65, "string"},
		"unreachable":        {"redis://127.0.0.1:1", []string{"run", "free", "--", "true"}, 69, "unavailable"},
		"refused":            {"redis://weak:any@" + server.Addr, []string{"run", "free", "--", "true"}, 77, "NOPERM"},
		"not found":          {url, []string{"run", "free", "--", "no-such-command"}, 127, "not found"},
		"no such file":       {url, []string{"run", "free", "--", "./no-such-command"}, 127, "not found"},
		"not executable":     {url, []string{"run", "free", "--", notProgram}, 126, "permission denied"},
		"no known format":    {url, []string{"run", "free", "--", noFormat}, 126, "exec format error"},
		"no command":         {url, []string{"run", "free"}, 64, "LOCKCTL"},
		"nothing behind --":  {url, []string{"run", "free", "--"}, 64, "KEY -- command"},
		"no dash":            {url, []string{"run", "free", "true"}, 64, "KEY -- command"},
		"two keys":           {url, []string{"run", "free", "too", "--", "true"}, 64, "KEY -- command"},
		"an odd flag":        {url, []string{"run", "--no-such-flag", "free", "--", "true"}, 64, "no-such-flag"},
		"a TTL in seconds":   {url, []string{"run", "--ttl", "30", "free", "--", "true"}, 0, ""},
		"a TTL too short":    {url, []string{"run", "--ttl", "500ms", "free", "--", "true"}, 64, "too short"},
		"too much grace":     {url, []string{"run", "--ttl", "4s", "--grace", "2s", "free", "--", "true"}, 64, "quarter"},
		"a negative grace":   {url, []string{"run", "--grace", "-5s", "free", "--", "true"}, 64, "not negative"},
		"a negative TTL":     {url, []string{"run", "--ttl", "-5s", "free", "--", "true"}, 64, "not negative"},
		"a negative wait":    {url, []string{"run", "--wait", "-5s", "free", "--", "true"}, 64, "not negative"},
		"both sides":         {url, []string{"run", "--read", "--write", "free", "--", "true"}, 64, "exclude each other"},
		"a wait too long":    {url, []string{"run", "--wait", "1e12", "free", "--", "true"}, 64, "a number of seconds"},
		"a bad wait":         {url, []string{"run", "--wait", "soon", "free", "--", "true"}, 64, "use a time"},
		"no server":          {"", []string{"run", "free", "--", "true"}, 64, "LOCKCTL_URL"},
		"a key with a dash":  {url, []string{"run", "--", "-k", "--", "true"}, 0, ""},
		"an option as key":   {url, []string{"run", "-n", "--", "--json", "--", "sh", "-c", `[ "$LOCKCTL_KEY" = --json ] && exit 3`}, 3, ""},
		"no second dash":     {url, []string{"run", "--", "-k", "true", "x"}, 64, "KEY -- command"},
		"nothing behind it":  {url, []string{"run", "--", "-k", "--"}, 64, "KEY -- command"},
		"half a quorum":      {url + " " + url, []string{"run", "free", "--", "true"}, 64, "no quorum"},
		"unknown driver":     {url, []string{"run", "--driver", "x", "free", "--", "true"}, 64, "redigo"},
		"a URL as driver":    {url, []string{"run", "--driver", "redis://:hunter2@h", "free", "--", "true"}, 64, "unknown driver"},
		"a URL as command":   {url, []string{"redis://:hunter2@h", "run", "free", "--", "true"}, 64, "--url"},
		"a URL misspelt":     {url, []string{"-ulr=redis://:hunter2@h", "run", "free", "--", "true"}, 64, "--url"},
		"a URL as -u":        {url, []string{"run", "-uredis://:hunter2@h", "free", "--", "true"}, 64, "--url"},
		"a URL as a time":    {url, []string{"--node-timeout", "redis://:hunter2@h", "run", "free", "--", "true"}, 64, "--url"},
		"unknown command":    {url, []string{"frobnicate"}, 64, "unknown command"},
		"a bad port":         {"redis://:hunter2@h:port", []string{"run", "free", "--", "true"}, 64, ""},
		"a bad URL":          {"redis://:hunter2@x y:z", []string{"run", "free", "--", "true"}, 64, ""},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := lockctl(t, test.url, test.args...)
			assert.Equal(t, test.code, code, errs)
			assert.Empty(t, out)
			if name == "no command" {
				test.says = "KEY -- command"
			}
			if name == "success" || strings.Contains(name, "command's") {
				assert.Empty(t, errs, "it is silent unless something is wrong")
			}
			assert.Contains(t, errs, test.says)
			assert.NotContains(t, errs, "hunter2")
		})
	}
}

// Cron sends a mail for whatever is written: of a job that runs once in the whole fleet each
// host but one would send one.
func TestRunIsSilentWhereALockThatOthersHaveIsNoError(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	hold(t, observer(t, url), "held")
	for _, wait := range []string{"-n", "--wait=3.5"} { // long enough to hear that others have it
		for flag, says := range map[string]string{"--verbose=false": "", "-q": "", "-vq": "", "-v": "is locked by", "--json": `"exit":0`} {
			t.Run(wait+" "+flag, func(t *testing.T) {
				t.Parallel()
				code, out, errs := lockctl(t, url, "run", wait, "-E", "0", flag, "held", "--", "echo", "it runs")
				assert.Zero(t, code)
				assert.Empty(t, out)
				if says == "" {
					assert.Empty(t, errs)
				}
				assert.Contains(t, errs, says)
			})
		}
	}
}

// Nothing is known of the lock while the server does not answer: a script must not take it
// for held, least of all as a success.
func TestRunOnAServerThatHangs(t *testing.T) {
	t.Parallel()
	server := servertest.Single(t)
	server.Pause()
	for _, driver := range []string{"goredis", "rueidis", "redigo"} {
		code, _, errs := lockctl(t, "redis://"+server.Addr, "run", "--driver", driver, "-E", "0", "-w", "0.5", "k", "--", "true")
		assert.Equal(t, exitUnreachable, code, "%s: %s", driver, errs)
		assert.Contains(t, errs, "server unavailable", driver)
	}
	code, _, errs := lockctl(t, "redis://"+server.Addr, "run", "-E", "0", "-n", "k", "--", "true")
	assert.Equal(t, exitUnreachable, code, errs)
	assert.Contains(t, errs, "gave up waiting", "it does not ask again and again")
}

// The help has no default that is a mere sentinel.
func TestHelpOfRunHasOneDefaultOfGrace(t *testing.T) {
	t.Parallel()
	code, out, errs := lockctl(t, "", "run", "--help")
	require.Zero(t, code, errs)
	assert.Regexp(t, `(?m)^ +--grace duration +.*\(default a sixth of the TTL, 10s at most\)$`, out)
}

// What a lease, and what is left of it for the command's end, can be.
func TestLimitsOfTheFlagsOfRun(t *testing.T) {
	span := func(d time.Duration) patience { return patience{d, true} }
	for name, test := range map[string]struct {
		flags runFlags
		says  string // nothing if they can be used
	}{
		"the shortest TTL":             {runFlags{ttl: minRunTTL}, ""},
		"a shorter one":                {runFlags{ttl: minRunTTL - 1}, "too short"},
		"the longest TTL":              {runFlags{ttl: locker.MaxTTL}, ""},
		"a longer one":                 {runFlags{ttl: locker.MaxTTL + 1}, "too long"},
		"a quarter for the end":        {runFlags{ttl: 8 * time.Second, grace: span(2 * time.Second)}, ""},
		"more than a quarter":          {runFlags{ttl: 8 * time.Second, grace: span(2*time.Second + 1)}, "a quarter"},
		"not to wait, twice":           {runFlags{ttl: minRunTTL, nonblock: true, wait: span(0)}, ""},
		"to wait and not to wait":      {runFlags{ttl: minRunTTL, nonblock: true, wait: span(1)}, "exclude each other"},
		"the greatest exit code":       {runFlags{ttl: minRunTTL, conflict: 255}, ""},
		"one that is no exit code":     {runFlags{ttl: minRunTTL, conflict: 256}, "from 0 to 255"},
		"another that is no exit code": {runFlags{ttl: minRunTTL, conflict: -1}, "from 0 to 255"},
	} {
		t.Run(name, func(t *testing.T) {
			err := test.flags.check()
			if test.says == "" {
				assert.NoError(t, err)
				return
			}
			assert.ErrorContains(t, err, test.says)
			assert.Equal(t, exitUsage, exitCode(err))
		})
	}
	long := runFlags{ttl: 10 * time.Minute}
	require.NoError(t, long.check())
	assert.Equal(t, 10*time.Second, long.times().Grace, "a sixth of the TTL, 10s at most")
}

// Others see by what a lock is held.
func TestRunTellsOthersOfItsCommand(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	self, err := os.Executable()
	require.NoError(t, err)
	for metadata, flags := range map[string][]string{filepath.Base(self): nil, "by hand": {"--metadata", "by hand"}, "": {"--metadata", ""}} {
		code, out, errs := lockctl(t, url, append(append([]string{"run"}, flags...), "k", "--", self, "show", "k", "--json")...)
		require.Zero(t, code, errs)
		var lock lockView
		require.NoError(t, json.Unmarshal([]byte(out), &lock), out)
		require.Len(t, lock.Holders, 1)
		assert.Equal(t, metadata, lock.Holders[0].Metadata)
	}
}

// A command that is done before anybody learns of the loss has not run under the lock all the same.
func TestRunWhoseLockIsGoneWhenItIsGivenUp(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	self, err := os.Executable()
	require.NoError(t, err)
	code, out, errs := lockctl(t, url, "run", "--ttl", "1m", "k", "--", self, "break", "k", "--yes")
	assert.Equal(t, exitLost, code, errs)
	assert.Contains(t, out, "Taken from")
	assert.Contains(t, errs, `the lock "k" was lost while the command ran`)
}

// How a command has ended, or why there was none, is in the exit code, and in words if it is not the
// command's own.
func TestOutcomesOfACommand(t *testing.T) {
	lost := errors.New("somebody has broken it")
	for name, test := range map[string]struct {
		result guard.Result
		lost   error
		code   int
		says   string
	}{
		"well":                   {guard.Result{}, nil, 0, ""},
		"with a code":            {guard.Result{Code: 4}, nil, 4, ""},
		"by a signal":            {guard.Result{Signal: syscall.SIGKILL}, nil, 137, ""},
		"without its lock":       {guard.Result{Code: 4}, lost, exitLost, "was lost while the command ran: somebody has broken it"},
		"with its lock":          {guard.Result{Signal: syscall.SIGTERM, Ended: true}, lost, exitLost, "the command was ended, since the lock \"k\" was lost or about to be: somebody has broken it"},
		"before its lock":        {guard.Result{Ended: true}, nil, exitLost, "it could not be renewed"},
		"with its guardian":      {guard.Result{Signal: syscall.SIGKILL, Ended: true, Err: guard.ErrGuardian}, nil, exitFailed, "the guardian was killed"},
		"nobody knows how":       {guard.Result{Err: errors.New("wait4: no child")}, nil, exitFailed, "no child"},
		"too little left":        {guard.Result{Err: &guard.StartError{Err: guard.ErrTooLate}}, nil, exitUnreachable, "the command was not started"},
		"the file is gone":       {guard.Result{Err: &guard.StartError{Err: syscall.ENOENT}}, nil, exitNotFound, "cmd: command not found"},
		"the file is no program": {guard.Result{Err: &guard.StartError{Err: syscall.ENOEXEC}}, nil, exitCannotRun, "cmd: cannot be run"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &runner{key: "k", args: []string{"cmd"}}
			err := r.outcome(test.result, test.lost)
			assert.Equal(t, test.code, exitCode(err))
			if test.says != "" {
				assert.ErrorContains(t, err, test.says)
			} else if e, ok := errors.AsType[*exitError](err); ok {
				assert.NoError(t, e.err, "it is the command's affair")
			}
		})
	}
}

// A lock that is lost again before the command could be started is nothing that was half done.
func TestNothingIsStartedUnderALockThatIsLost(t *testing.T) {
	t.Parallel()
	c := observer(t, "redis://"+servertest.Single(t).Addr)
	lease := hold(t, c, "k")
	require.NoError(t, lease.Unlock(t.Context()))
	_, err := (&runner{lease: lease}).supervise(guard.Now())
	assert.Equal(t, exitUnreachable, exitCode(err))
	assert.ErrorContains(t, err, "the command was not started")
}

// Signals that come before the command does are for the command as well.
func TestASignalBeforeTheCommandIsKeptForIt(t *testing.T) {
	started := guard.Event{Started: 7}
	stops := make(chan os.Signal) // Ctrl-Z is not the test's affair
	r := &runner{stops: stops}
	assert.NotPanics(t, func() { r.heed(started) }, "there is nothing to pass on")
	r = &runner{stops: stops}
	assert.NotPanics(t, func() { r.pass(syscall.SIGTERM) }, "there is nobody to pass it on to")
	assert.Panics(t, func() { r.heed(started) }, "it is passed on, to nobody in this test")
}

// A terminal that is made larger while lockctl waits is no reason to end.
func TestResizingEndsNoWait(t *testing.T) {
	_, ok := ends(signalResize)
	assert.False(t, ok)
	sig, ok := ends(syscall.SIGTERM)
	assert.True(t, ok)
	assert.Equal(t, syscall.SIGTERM, sig)
}

// A command is found where shells find it, in the working directory too if PATH says so.
func TestACommandInTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("PATH", ".")
	require.NoError(t, os.WriteFile("tool", nil, 0o700))
	path, err := findCommand("tool")
	require.NoError(t, err)
	assert.Equal(t, "tool", filepath.Base(path))
}

// Without --grace it is a sixth of the TTL; 0 is none.
func TestGraceOfRun(t *testing.T) {
	for grace, want := range map[string]time.Duration{"": 5 * time.Second, "0": 0, "2": 2 * time.Second, "300ms": 300 * time.Millisecond} {
		f := &runFlags{ttl: 30 * time.Second}
		if grace != "" {
			require.NoError(t, f.grace.Set(grace))
		}
		require.NoError(t, f.check())
		assert.Equal(t, want, f.times().Grace, grace)
	}
}

// The command sees which lock it has, and nothing of an outer one.
func TestRunTellsTheCommandOfItsLock(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	before := time.Now()
	cmd := program(t, url, "run", "--fenced", "--prefix", "app:", "orders:42", "--", "sh", "-c", `echo "$LOCKCTL_KEY|$LOCKCTL_TOKEN|$LOCKCTL_DEADLINE"`)
	p := startCmd(t, cmd)
	require.Zero(t, p.code(t), p.err)
	fields := strings.Split(strings.TrimSpace(p.out.String()), "|")
	require.Len(t, fields, 3)
	assert.Equal(t, "orders:42", fields[0])
	assert.Regexp(t, `^\d{16}$`, fields[1])
	deadline, err := time.Parse(time.RFC3339, fields[2])
	require.NoError(t, err)
	assert.WithinRange(t, deadline, before.Add(20*time.Second), time.Now().Add(30*time.Second))

	inner := program(t, url, "run", "inner", "--", "sh", "-c", `echo "$LOCKCTL_KEY|${LOCKCTL_TOKEN-none}"`)
	inner.Env = append(inner.Env, "LOCKCTL_KEY=outer", "LOCKCTL_TOKEN=123")
	p = startCmd(t, inner)
	require.Zero(t, p.code(t), p.err)
	assert.Equal(t, "inner|none\n", p.out.String(), "the token of another lock is none of this one")
}

// A lock that is taken under another key than the one that was asked for keeps nobody out.
func TestAFlagIsHeededBeforeItsVariable(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	for flag, key := range map[string]string{"--prefix=": "k", "--prefix=other:": "other:k", "--json=false": "app:k"} {
		lease := hold(t, c, key)
		cmd := program(t, url, "run", "-n", flag, "k", "--", "true")
		cmd.Env = append(cmd.Env, prefixVariable+"=app:")
		p := startCmd(t, cmd)
		assert.Equal(t, exitNotHad, p.code(t), "%s: the lock of %q is held: %s", flag, key, p.err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
}

// No name that lockctl reads is one that it passes on: a lockctl within another would take
// the lock's key for a setting.
func TestVariablesDoNotCollide(t *testing.T) {
	for _, setting := range []string{urlVariable, driverVariable, prefixVariable} {
		assert.NotContains(t, heldVariables, setting)
	}
}

// Who has waited is granted the lock for a short time at first, less than the command is
// given for its end with the default TTL.
func TestRunAfterAWait(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	for key, flags := range map[string]struct {
		flag  string
		other []locker.Option
	}{"mutex": {"--wait=1m", nil}, "read-write": {"--write", []locker.Option{locker.ForReading()}}} {
		lease := hold(t, c, key, flags.other...)
		p := start(t, url, "run", flags.flag, key, "--", "sh", "-c", "sleep 0.5; echo done")
		awaitWaiters(t, c, key, 1)
		require.NoError(t, lease.Unlock(t.Context()))
		assert.Zero(t, p.code(t), p.err)
		assert.Equal(t, "done\n", p.out.String())
	}
}

func TestRunLeavesTheStreamsAlone(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	cmd := program(t, url, "run", "k", "--", "cat")
	all := "binary \x00\xff and\nlines"
	cmd.Stdin = strings.NewReader(all)
	p := startCmd(t, cmd)
	assert.Zero(t, p.code(t))
	assert.Equal(t, all, p.out.String())
	assert.Empty(t, p.err.String())
}

func TestRunOnAQuorumAndWithEveryDriver(t *testing.T) {
	t.Parallel()
	urls := threeServers(t)
	for _, name := range []string{"goredis", "rueidis", "redigo"} {
		code, out, errs := lockctl(t, urls[0], "run", "--driver", name, "k", "--", "echo", "done")
		assert.Zero(t, code, errs)
		assert.Equal(t, "done\n", out)
		assert.Empty(t, errs)
	}
	code, _, errs := lockctl(t, strings.Join(urls, " "), "run", "-n", "q", "--", "true")
	assert.Equal(t, exitUnreachable, code, "new servers are no quorum yet: %s", errs)
	args := []string{"-url", urls[0], "--url=" + urls[1], "-url=" + urls[2], "--bootstrap", "run", "--fenced", "q", "--", "sh", "-c", "echo $LOCKCTL_TOKEN"}
	code, out, errs := lockctl(t, "", args...)
	assert.Zero(t, code, errs)
	assert.Regexp(t, `^\d+\n$`, out)
}

// Readers run together, and a writer alone.
func TestRunReadersShare(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	hold(t, c, "k", locker.ForReading())
	code, _, errs := lockctl(t, url, "run", "--read", "-n", "k", "--", "true")
	assert.Zero(t, code, errs)
	code, _, errs = lockctl(t, url, "run", "--write", "-n", "k", "--", "true")
	assert.Equal(t, exitNotHad, code, errs)
}

// A reader has the last writer's token, if there is one.
func TestRunTellsReadersOfTheLastWritersToken(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	token := func(side string) string {
		code, out, errs := lockctl(t, url, "run", side, "--fenced", "fresh", "--", "sh", "-c", "echo ${LOCKCTL_TOKEN-unset}")
		require.Zero(t, code, errs)
		return out
	}
	assert.Equal(t, "unset\n", token("--read"))
	written := token("--write")
	assert.Regexp(t, `^\d{16}\n$`, written)
	assert.Equal(t, written, token("--read"))
}

// Nothing asks for a longer lease than a quorum allows unless it is told to.
func TestOnAQuorumWithAShortLongestTTL(t *testing.T) {
	t.Parallel()
	quorum := strings.Join(threeServers(t), " ")
	short := func(args ...string) []string {
		return append([]string{"--longest-ttl", "10s", "--node-timeout", "2s", "--bootstrap"}, args...)
	}
	for _, flags := range [][]string{{"--ttl", "5s"}, nil} {
		code, out, errs := lockctl(t, quorum, short(append(append([]string{"run"}, flags...), "k", "--", "echo", "ok")...)...)
		assert.Zero(t, code, errs)
		assert.Equal(t, "ok\n", out)
	}
	p := start(t, quorum, short("run", "held", "--", "sh", "-c", "echo ok; sleep 60")...)
	eventually(t, "it is held", func() bool { return p.out.String() != "" })
	locks := decoded[[]lockView](t, quorum, short("ls")...)
	require.Len(t, locks, 1)
	assert.LessOrEqual(t, locks[0].Holders[0].RemainingMS, int64(10000))
	assert.True(t, decoded[lockView](t, quorum, short("show", "held")...).Held)
	code, _, errs := lockctl(t, quorum, short("break", "held", "--yes")...)
	assert.Zero(t, code, errs)
	assert.Equal(t, exitLost, p.code(t), p.err)

	code, _, errs = lockctl(t, quorum, short("run", "--ttl", "11s", "k", "--", "true")...)
	assert.Equal(t, exitUsage, code, errs)
	assert.Contains(t, errs, "LongestTTL")
}

// On a quorum readers have none, ever: who asks for one is told.
func TestRunRefusesATokenThatReadersOfAQuorumDoNotHave(t *testing.T) {
	t.Parallel()
	quorum := strings.Join(threeServers(t), " ")
	code, out, errs := lockctl(t, quorum, "--bootstrap", "run", "--read", "--fenced", "k", "--", "echo", "ran")
	assert.Equal(t, exitUsage, code, errs)
	assert.Contains(t, errs, "readers have no fencing tokens")
	assert.Empty(t, out)
	for _, flag := range []string{"--read", "--fenced", "--write"} {
		code, _, errs = lockctl(t, quorum, "--bootstrap", "run", flag, "k"+flag, "--", "true")
		assert.Zero(t, code, errs)
	}
}

func TestRunSaysWhatHappensAsJSON(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	code, out, errs := lockctl(t, url, "run", "--json", "--fenced", "k", "--", "echo", "x")
	require.Zero(t, code, errs)
	assert.Equal(t, "x\n", out)
	var names []string
	for line := range strings.Lines(errs) {
		var e event
		require.NoError(t, json.Unmarshal([]byte(line), &e), line)
		assert.Equal(t, "k", e.Key)
		assert.Equal(t, e.Event == "acquired", e.Token != 0)
		names = append(names, e.Event)
	}
	assert.Equal(t, []string{"acquired", "released"}, names)

	code, out, errs = lockctl(t, url, "run", "--json", "-q", "k", "--", "echo", "x")
	require.Zero(t, code, errs)
	assert.Equal(t, "x\n", out)
	assert.Empty(t, errs, "--quiet holds here, too")

	code, _, errs = lockctl(t, "redis://127.0.0.1:1", "--json", "run", "k", "--", "true")
	var failure struct {
		Error string
		Exit  int
	}
	require.NoError(t, json.Unmarshal([]byte(errs), &failure), errs)
	assert.Equal(t, code, failure.Exit)
	assert.Contains(t, failure.Error, "unavailable")
}
