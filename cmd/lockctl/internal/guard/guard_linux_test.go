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
	for script, want := range map[string]Result{
		"kill -TERM $$": {Signal: syscall.SIGTERM},
		"kill -KILL $$": {Signal: syscall.SIGKILL},
		// An orphan that ends, which the guardian is told of, is not the command. Its number is free when that has heard of it.
		"pid=$(sh -c 'exec > /dev/null; exit 7' & echo $!); while kill -0 $pid 2> /dev/null; do sleep 0.01; done; exit 3": {Code: 3},
	} {
		pid, r := await(t, begin(t, script, generous, time.Minute))
		assert.Equal(t, want, r, script)
		assert.True(t, gone(t, pid), script)
	}
}

// Nor does lockctl take its command for one that has ended well.
func TestACommandIsEndedWithItsGuardian(t *testing.T) {
	p := begin(t, "sleep 60 & sleep 60", generous, time.Minute)
	pid := (<-p.Events()).Started
	require.Positive(t, pid)
	require.NoError(t, syscall.Kill(p.guardian, syscall.SIGKILL))
	_, r := await(t, p)
	assert.Equal(t, Result{Signal: syscall.SIGKILL, Ended: true, Err: ErrGuardian}, r)
	assert.True(t, gone(t, pid))
}

// A machine that is slow may have a guardian when it is too late for the command.
func TestAGuardianThatBeginsTooLateStartsNothing(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	pid, err := startGuardian(pair[1])
	require.NoError(t, err)
	require.NoError(t, unix.Close(pair[1]))
	l := newLine(pair[0])
	defer l.file.Close()
	ran := filepath.Join(t.TempDir(), "ran")
	require.NoError(t, l.Encode(order{Command: &Command{Path: "/bin/sh", Args: []string{"sh", "-c", ": > " + ran}}, Times: generous, Deadline: now().add(generous.Margin)}))
	var r report
	require.NoError(t, l.Decode(&r))
	assert.Equal(t, report{Late: true}, r)
	_, err = syscall.Wait4(pid, nil, 0, nil)
	require.NoError(t, err)
	assert.NoFileExists(t, ran)
}

func TestWhenACommandIsEnded(t *testing.T) {
	deadline := now()
	at := func(asked instant) time.Duration {
		k := &keeper{deadline: deadline, asked: asked, times: Times{Margin: 2 * time.Second, Grace: 5 * time.Second}}
		return time.Duration(deadline - k.next())
	}
	assert.Equal(t, 7*time.Second, at(0), "it is asked to")
	assert.Equal(t, 2*time.Second, at(deadline.add(-7*time.Second)), "it is killed")
	assert.Equal(t, 2*time.Second, at(deadline.add(-3*time.Second)), "it was asked late")
	assert.Equal(t, 15*time.Second, at(deadline.add(-20*time.Second)), "it was asked early, and has had its grace")
}

// What is asked to end once more, as when its lease is lost while it ends, has no more time for that.
func TestTheGraceIsOfTheFirstRequest(t *testing.T) {
	k := &keeper{tree: tree{root: -1}} // of nobody
	k.ask()
	first := k.asked
	require.NotZero(t, first)
	k.obey(order{End: true})
	assert.True(t, k.ended)
	assert.Equal(t, first, k.asked)
}

// What has ended is nobody's affair: lockctl may have begun something else.
func TestNobodyStepsInForACommandThatHasEnded(t *testing.T) {
	p := begin(t, "exit 5", generous, time.Minute)
	await(t, p)
	other := exec.Command("sh", "-c", "read x")
	in, err := other.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, other.Start())
	p.at = now()
	p.stepIn()
	require.NoError(t, in.Close())
	require.Error(t, other.Wait())
	assert.Equal(t, 1, other.ProcessState.ExitCode(), "it has read to the end")
}

func TestASuspensionIsKnown(t *testing.T) {
	m := Now()
	assert.False(t, m.Suspended())
	m.clock.asleep -= time.Second // as if it had slept since
	assert.True(t, m.Suspended())
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
	others, err := tree{root: -1, group: group.Process.Pid, session: session}.members()
	require.NoError(t, err)
	assert.Equal(t, []int{group.Process.Pid}, others, "whosever child it is")
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
	for _, state := range []string{"X", "x"} {
		p, _ = parseStat(7, line("x", state, "2"))
		assert.True(t, p.ended)
	}
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
	soon := now().add(100 * time.Millisecond)
	require.NoError(t, a.set(soon))
	<-a.C
	assert.GreaterOrEqual(t, now(), soon)
	require.NoError(t, a.set(0))
	<-a.C // what is past rings at once
}

// A guardian is not told of by anything but its name in the list of processes.
func TestTheGuardianIsAlone(t *testing.T) {
	p := begin(t, "sleep 60", generous, time.Minute)
	for e := range p.Events() {
		if e.Started == 0 {
			assert.NoError(t, e.Result.Err)
			continue
		}
		group, err := syscall.Getpgid(p.guardian)
		require.NoError(t, err)
		assert.Equal(t, p.guardian, group, "a signal to lockctl's group does not reach it")
		name, err := os.ReadFile("/proc/" + strconv.Itoa(p.guardian) + "/cmdline")
		require.NoError(t, err)
		assert.True(t, strings.Contains(string(name), guardianArg))
		for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN} {
			require.NoError(t, syscall.Kill(p.guardian, sig), "as by killall lockctl, which means lockctl")
		}
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
