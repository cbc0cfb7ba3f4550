package guard

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The margin is for a machine that is busy with other tests: half of it before the end
// lockctl steps in. No test runs beside another, since then all of them would be ended.
var generous = Times{Margin: 4 * time.Second, Grace: 3 * time.Second}

// begin starts a script under a lease of that length.
func begin(t *testing.T, script string, times Times, lease time.Duration) *Process {
	t.Helper()
	p, err := Start(Command{Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ()}, times, Now(), time.Now().Add(lease))
	require.NoError(t, err)
	return p
}

// await returns the command's pid and its end.
func await(t *testing.T, p *Process) (pid int, r Result) {
	t.Helper()
	for e := range p.Events() {
		if e.Started != 0 {
			pid = e.Started
		}
		if e.Result != nil {
			r = *e.Result
		}
	}
	return pid, r
}

// gone tells whether nothing of the command runs any more.
func gone(t *testing.T, group int) bool {
	t.Helper()
	session, err := unix.Getsid(0)
	require.NoError(t, err)
	left, err := tree{root: -1, group: group, session: session}.members()
	require.NoError(t, err)
	return len(left) == 0
}

func TestACommandEndsByItself(t *testing.T) {
	pid, r := await(t, begin(t, "kill -TERM $$", generous, time.Minute))
	assert.Equal(t, Result{Signal: syscall.SIGTERM}, r)
	assert.True(t, gone(t, pid))
}

func TestACommandIsEndedBeforeItsLease(t *testing.T) {
	for name, test := range map[string]struct {
		script string
		code   int
		signal syscall.Signal
	}{
		"politely": {"trap 'exit 4' TERM; while :; do sleep 0.01; done", 4, 0},
		"hard":     {"trap '' TERM; sleep 60 & (sleep 60) & while :; do sleep 0.01; done", 0, syscall.SIGKILL},
		"stopped":  {"kill -STOP $$", 0, syscall.SIGTERM},
	} {
		t.Run(name, func(t *testing.T) {
			const lease = 9 * time.Second
			begun := time.Now()
			pid, r := await(t, begin(t, test.script, generous, lease))
			assert.Equal(t, Result{Code: test.code, Signal: test.signal, Ended: true}, r)
			assert.True(t, gone(t, pid))
			assert.GreaterOrEqual(t, time.Since(begun), lease-generous.Margin-generous.Grace)
		})
	}
}

func TestALeaseThatIsExtendedLetsTheCommandGoOn(t *testing.T) {
	p := begin(t, "sleep 5", Times{}, 4*time.Second)
	p.Extend(time.Now().Add(time.Minute))
	p.Extend(time.Now()) // which comes late, and shortens nothing
	_, r := await(t, p)
	assert.Equal(t, Result{}, r)
}

func TestALeaseThatIsOverStartsNothing(t *testing.T) {
	_, err := Start(Command{Path: "/bin/true", Args: []string{"true"}}, generous, Now(), time.Now().Add(50*time.Millisecond))
	assert.ErrorIs(t, err, ErrTooLate)
}

func TestWhatCannotBeStartedSaysWhy(t *testing.T) {
	p, err := Start(Command{Path: "/no/such/file", Args: []string{"x"}}, generous, Now(), time.Now().Add(time.Minute))
	require.NoError(t, err)
	_, r := await(t, p)
	var failed *StartError
	require.ErrorAs(t, r.Err, &failed)
	assert.ErrorIs(t, failed, syscall.ENOENT)
}

// The arguments are bytes, and descriptors that the command has been left stay open.
func TestTheCommandGetsItsBytes(t *testing.T) {
	odd := "\xff\xfe not UTF-8"
	p, err := Start(Command{
		Path: "/bin/sh", Args: []string{"sh", "-c", `[ "$1" = "$ODD" ] && exit 6`, "sh", odd}, Env: []string{"ODD=" + odd},
	}, generous, Now(), time.Now().Add(time.Minute))
	require.NoError(t, err)
	_, r := await(t, p)
	assert.Equal(t, 6, r.Code)
}

// A process that changes its group is the command's all the same, and one that leaves the
// session is not.
func TestTheTree(t *testing.T) {
	session, err := unix.Getsid(0)
	require.NoError(t, err)
	start := func(attr syscall.SysProcAttr) *exec.Cmd {
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = &attr
		require.NoError(t, cmd.Start())
		t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
		return cmd
	}
	group := start(syscall.SysProcAttr{Setpgid: true})
	job := start(syscall.SysProcAttr{Setpgid: true})
	daemon := start(syscall.SysProcAttr{Setsid: true})
	members, err := tree{root: os.Getpid(), group: group.Process.Pid, session: session}.members()
	require.NoError(t, err)
	assert.Contains(t, members, group.Process.Pid)
	assert.Contains(t, members, job.Process.Pid)
	assert.NotContains(t, members, daemon.Process.Pid)
	assert.NotContains(t, members, os.Getpid())
	spared, err := tree{root: os.Getpid(), spare: job.Process.Pid, session: session}.members()
	require.NoError(t, err)
	assert.NotContains(t, spared, job.Process.Pid)
}

func TestParseStat(t *testing.T) {
	line := func(name, state, threads string) []byte {
		return []byte("7 (" + name + ") " + state + " 1 2 3 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 " + threads + " 0 99\n")
	}
	p, ok := parseStat(7, line("a) Z (b", "S", "1"))
	assert.True(t, ok)
	assert.Equal(t, process{pid: 7, parent: 1, group: 2, session: 3}, p)
	p, _ = parseStat(7, line("x", "Z", "1"))
	assert.True(t, p.ended)
	p, _ = parseStat(7, line("x", "Z", "2"))
	assert.False(t, p.ended, "other threads of it go on")
	for _, odd := range []string{"", "7 x S 1", "7 (x) S 1 2", "7 (x) S a b c 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0"} {
		_, ok := parseStat(7, []byte(odd))
		assert.False(t, ok, "%q", odd)
	}
}

// Time that the machine may have slept since the last call is taken off.
func TestTheTranslatorErrsOnTheSafeSide(t *testing.T) {
	c := translator{asleep()}
	in := func() time.Duration { return time.Duration(c.instant(time.Now().Add(time.Minute)) - now()) }
	assert.InDelta(t, time.Minute, in(), float64(time.Second))
	c.asleep -= 10 * time.Second // as if it had slept meanwhile
	assert.InDelta(t, 50*time.Second, in(), float64(time.Second))
	assert.InDelta(t, time.Minute, in(), float64(time.Second), "it has slept before this one was known")
}

func TestTheAlarmMovesOn(t *testing.T) {
	a, err := newAlarm()
	require.NoError(t, err)
	defer a.file.Close()
	require.NoError(t, a.set(now().add(time.Hour)))
	require.NoError(t, a.set(now().add(10*time.Millisecond)))
	<-a.C
	require.NoError(t, a.set(0))
	<-a.C // what is past rings at once
}

// A guardian is not told of by anything but its name in the list of processes.
func TestTheGuardianIsAlone(t *testing.T) {
	p := begin(t, "sleep 60", generous, time.Minute)
	for e := range p.Events() {
		if e.Started == 0 {
			continue
		}
		group, err := syscall.Getpgid(p.guardian)
		require.NoError(t, err)
		assert.Equal(t, p.guardian, group, "a signal to lockctl's group does not reach it")
		name, err := os.ReadFile("/proc/" + strconv.Itoa(p.guardian) + "/cmdline")
		require.NoError(t, err)
		assert.True(t, strings.Contains(string(name), guardianArg))
		p.End()
	}
}

// A guardian that gets no time until lockctl has killed the command in its place finds it dead, and
// does not know why: it may take it for one that has ended by itself.
func TestWhatWasKilledInThePlaceOfTheGuardianWasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		status syscall.WaitStatus
		want   Result
	}{
		"killed":  {syscall.WaitStatus(syscall.SIGKILL), Result{Signal: syscall.SIGKILL, Ended: true}},
		"in time": {4 << 8, Result{Code: 4}},
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		require.NoError(t, err)
		guardian := exec.Command("true")
		require.NoError(t, guardian.Start())
		p := &Process{
			events: make(chan Event), line: newLine(pair[0]), guardian: guardian.Process.Pid,
			late: true, backstop: time.AfterFunc(time.Hour, func() {}),
		}
		theirs := newLine(pair[1])
		require.NoError(t, theirs.Encode(report{Result: &wireResult{Status: test.status}}))
		go p.listen(nil)
		_, r := await(t, p)
		require.NoError(t, theirs.file.Close())
		assert.Equal(t, test.want, r, name)
	}
}

func TestProcThatIsMissingOrOfOthersIsTold(t *testing.T) {
	assert.NoError(t, Check())
	self := filepath.Join(t.TempDir(), "self")
	assert.ErrorIs(t, checkProc(self), os.ErrNotExist)
	require.NoError(t, os.Symlink(strconv.Itoa(os.Getpid()+1), self))
	assert.ErrorContains(t, checkProc(self), "another namespace")
}
