package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/cmd/lockctl/internal/guard"
	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
)

// shell returns the arguments of a lockctl that runs a script.
func shell(script string, flags ...string) []string {
	return append(append([]string{"run"}, flags...), "k", "--", "sh", "-c", script)
}

func awaitFile(t *testing.T, path string) {
	t.Helper()
	eventually(t, filepath.Base(path)+" exists", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
}

// Signals are meant for the command. What it makes of them is its affair.
func TestRunPassesSignalsOn(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		ready := filepath.Join(t.TempDir(), "ready")
		script := fmt.Sprintf(`trap 'echo caught; exit 9' %d; : > %s; while :; do sleep 0.05; done`, sig, ready)
		p := start(t, url, shell(script)...)
		awaitFile(t, ready)
		require.NoError(t, p.Process.Signal(sig))
		assert.Equal(t, 9, p.code(t), "%v: %s", sig, p.err)
		assert.Equal(t, "caught\n", p.out.String(), "%v", sig)
	}
	ready := filepath.Join(t.TempDir(), "ready")
	p := start(t, url, shell(": > "+ready+"; sleep 60")...)
	awaitFile(t, ready)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, exitSignal+int(syscall.SIGTERM), p.code(t), "the command was ended by the signal")
}

// nohup: HUP and INT that are ignored when lockctl begins are ignored by the command.
func TestRunInheritsIgnoredSignals(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	ready := filepath.Join(t.TempDir(), "ready")
	done := filepath.Join(t.TempDir(), "done")
	cmd := program(t, url)
	args := append([]string{"-c", `trap "" HUP INT; exec "$0" "$@"`, cmd.Path}, shell(fmt.Sprintf(`kill -HUP $$; kill -INT $$; : > %s; while [ ! -e %s ]; do sleep 0.05; done`, ready, done))...)
	nohup := exec.Command("sh", args...)
	nohup.Env = cmd.Env
	p := startCmd(t, nohup)
	awaitFile(t, ready)
	require.NoError(t, p.Process.Signal(syscall.SIGHUP))
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	require.NoError(t, os.WriteFile(done, nil, 0o600))
	assert.Zero(t, p.code(t), p.err)
}

// A signal ends the wait, and leaves nothing behind.
func TestRunCanBeInterruptedWhileItWaits(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	hold(t, c, "k")
	p := start(t, url, shell("true")...)
	awaitWaiters(t, c, "k", 1)
	require.NoError(t, p.Process.Signal(syscall.SIGINT))
	assert.Equal(t, exitSignal+int(syscall.SIGINT), p.code(t))
	s, err := c.Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.Zero(t, s.Waiters)
}

// A lock that is taken away ends the command, politely.
func TestRunEndsTheCommandWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	ready := filepath.Join(t.TempDir(), "ready")
	p := start(t, url, shell(`trap 'echo asked; exit 0' TERM; : > `+ready+`; while :; do sleep 0.05; done`, "--ttl", "8s", "--grace", "2s")...)
	awaitFile(t, ready)
	code, out, errs := lockctl(t, url, "break", "k", "--yes")
	require.Zero(t, code, errs)
	assert.Contains(t, out, "Taken from")
	assert.Equal(t, exitLost, p.code(t), p.err)
	assert.Equal(t, "asked\n", p.out.String())
	assert.Contains(t, p.err.String(), "lost")
	assert.NotContains(t, p.err.String(), `\n`, "what it says is text, and no quotation")
	assert.Equal(t, 1, strings.Count(p.err.String(), "the command was ended"), p.err)
	assert.NotContains(t, p.err.String(), "lockctl was killed", "the guardian leaves it to lockctl to say what has happened")
	_, err := c.Inspect(t.Context(), "k")
	assert.NoError(t, err)
}

// Who reads objects reads no text between them, also where the guardian speaks in the place of a
// lockctl that was killed.
func TestTheGuardianSaysWhatItSaysAsJSON(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for _, flag := range []string{"--json", "--json=false"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			// Long enough that the lock is not lost before lockctl is killed.
			p := start(t, url, "run", flag, "--ttl", "8s", "k"+flag, "--", "sh", "-c", "echo ready; exec sleep 60")
			eventually(t, "the command runs", func() bool { return p.out.String() != "" })
			require.NoError(t, p.Process.Kill())
			<-p.ended // when the guardian has closed the stream
			require.Contains(t, p.err.String(), "lockctl was killed; its command was ended before the lock ran out")
			for line := range strings.Lines(p.err.String()) {
				assert.Equal(t, flag == "--json", json.Valid([]byte(line)), line)
			}
		})
	}
}

// A command that is done before its lease is over needs no word of a lockctl that was killed.
func TestTheGuardianOfACommandThatEndsByItselfIsSilent(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	end := filepath.Join(t.TempDir(), "end")
	require.NoError(t, syscall.Mkfifo(end, 0o600))
	p := start(t, url, shell("echo ready; read x < "+end, "--ttl", "2m")...)
	eventually(t, "the command runs", func() bool { return p.out.String() != "" })
	require.NoError(t, p.Process.Kill())
	eventually(t, "lockctl is gone", func() bool { return stateOf(p.Process.Pid) == "" })
	require.NoError(t, os.WriteFile(end, []byte("\n"), 0o600))
	<-p.ended // when the guardian has closed the stream
	assert.Empty(t, p.err.String())
}

// Somebody may work under the lock for as long as a process of the command runs.
func TestTheLockIsKeptForWhatCannotBeEnded(t *testing.T) {
	t.Parallel()
	// Who has not got this capability cannot kill what is another user's.
	weak := []string{"--bounding-set=-kill", "--inh-caps=-kill"}
	another := []string{"setpriv", "--reuid=65534", "--clear-groups"}
	if err := exec.Command("setpriv", append(append(weak, another...), "true")...).Run(); err != nil {
		t.Skipf("NOT TESTED WITH WHAT CANNOT BE ENDED: nobody can be made another user: %v", err)
	}
	url := "redis://" + servertest.Single(t).Addr
	cmd := program(t, url)
	ready := filepath.Join(t.TempDir(), "ready")
	require.NoError(t, syscall.Mkfifo(ready, 0o600))
	script := `exec 3<> ` + ready + `; ` + strings.Join(another, " ") + ` sh -c 'trap "" TERM; echo $$; echo >&3; exec sleep 60 > /dev/null 2>&1' & read x <&3`
	without := exec.Command("setpriv", append(append(weak, cmd.Path), shell(script, "--ttl", "2m", "--grace", "0")...)...)
	without.Env = cmd.Env
	p := startCmd(t, without)
	assert.Equal(t, exitFailed, p.code(t), p.err)
	left, err := strconv.Atoi(strings.TrimSpace(p.out.String()))
	require.NoError(t, err)
	defer func() { assert.NoError(t, syscall.Kill(left, syscall.SIGKILL)) }()
	assert.Contains(t, p.err.String(), fmt.Sprintf(`the processes [%d] of the command could not be ended; the lock "k" is left to run out`, left))
	s, err := observer(t, url).Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.True(t, s.Held())
}

// What the command leaves behind is ended before the lock is given up.
func TestRunEndsWhatTheCommandLeavesBehind(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	script := fmt.Sprintf(`%s beat %s first -job & while [ $(ls %s | wc -l) -lt 3 ]; do sleep 0.02; done; exit 5`, self, dir, dir)
	code, _, errs := lockctl(t, url, shell(script, "--ttl", "10s", "--grace", "200ms")...)
	assert.Equal(t, 5, code, errs)
	p := pulseOf(t, dir, "first")
	require.Len(t, p.pids, 3)
	for _, pid := range p.pids {
		assert.Contains(t, []string{"", "Z", "X"}, stateOf(pid))
	}
}

// What leaves the session is not the command's any more, as the docs say.
func TestRunDoesNotEndWhatDetachesItself(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setsid"); err != nil {
		t.Skip("there is no setsid")
	}
	url := "redis://" + servertest.Single(t).Addr
	self, err := os.Executable()
	require.NoError(t, err)
	dir := t.TempDir()
	script := fmt.Sprintf(`setsid %s beat %s daemon > /dev/null 2>&1 & while [ -z "$(ls %s)" ]; do sleep 0.02; done`, self, dir, dir)
	code, _, errs := lockctl(t, url, shell(script)...)
	assert.Zero(t, code, errs)
	var p pulse
	eventually(t, "the daemon beats", func() bool { p = pulseOf(t, dir, "daemon"); return len(p.pids) == 1 })
	assert.NotEqual(t, "", stateOf(p.pids[0]))
	require.NoError(t, syscall.Kill(p.pids[0], syscall.SIGKILL))
}

// A command that outlasts many leases keeps the lock.
func TestRunRenews(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	ready := filepath.Join(t.TempDir(), "ready")
	done := filepath.Join(t.TempDir(), "done")
	p := start(t, url, shell(fmt.Sprintf(`: > %s; while [ ! -e %s ]; do sleep 0.05; done`, ready, done), "--ttl", "6s", "--grace", "0")...)
	awaitFile(t, ready)
	for range 8 {
		s, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.True(t, s.Held())
		select {
		case <-p.ended:
		case <-time.After(time.Second):
		}
	}
	require.NoError(t, os.WriteFile(done, nil, 0o600))
	assert.Zero(t, p.code(t), p.err)
}

// onTerminal starts a program on a terminal of its own, and returns its other end and what
// is shown there.
func onTerminal(t *testing.T, cmd *exec.Cmd) (*os.File, *safeBuffer) {
	t.Helper()
	tty, err := pty.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = tty.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	out := &safeBuffer{}
	go func() { _, _ = io.Copy(out, tty) }()
	return tty, out
}

func awaitText(t *testing.T, out *safeBuffer, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("%q on the terminal", text), func() bool { return strings.Contains(out.String(), text) })
}

// An interactive command has the terminal: it reads from it, and Ctrl-C and Ctrl-Z are
// for it.
func TestRunOnATerminal(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	// sh in the place of an interactive shell: it has job control.
	cmd := program(t, url)
	script := `set -m; "$0" run k -- sh -c 'read x; echo "got:$x"; trap "echo int; exit 4" INT; echo ready; while :; do sleep 0.05; done'; echo "code:$?"`
	sh := exec.Command("sh", "-c", script, cmd.Path)
	sh.Env = cmd.Env
	tty, out := onTerminal(t, sh)
	says := func(text string) { t.Helper(); awaitText(t, out, text) }
	_, err := tty.WriteString("hello\n")
	require.NoError(t, err)
	says("got:hello")
	assert.NotContains(t, out.String(), "suspended")
	says("ready")
	_, err = tty.Write([]byte{3}) // Ctrl-C
	require.NoError(t, err)
	says("int")
	says("code:4")
}

// A command may ask at the terminal, as for a password, also where its standard input is something else.
func TestRunGivesTheTerminalToWhoOpensIt(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for what, script := range map[string]string{
		"a file":     `"$0" run k -- sh -c 'stty -echo < /dev/tty; read x < /dev/tty; echo "got:$x"; trap "echo int; exit 4" INT; echo ready; while :; do sleep 0.05; done' < /dev/null`,
		"a pipeline": `echo data | "$0" run k -- sh -c 'read x < /dev/tty; echo "got:$x"; trap "echo int; exit 4" INT; echo ready; while :; do sleep 0.05; done'`,
	} {
		cmd := program(t, url)
		sh := exec.Command("sh", "-c", "set -m; "+script+`; echo "code:$?"`, cmd.Path)
		sh.Env = cmd.Env
		tty, out := onTerminal(t, sh)
		_, err := tty.WriteString("hello\n")
		require.NoError(t, err)
		awaitText(t, out, "got:hello")
		assert.NotContains(t, out.String(), "suspended", what)
		awaitText(t, out, "ready")
		_, err = tty.Write([]byte{3}) // Ctrl-C
		require.NoError(t, err)
		awaitText(t, out, "int")
		awaitText(t, out, "code:4")
	}
}

// Only one process group may read from the terminal. Where lockctl's job has another reader, or is not in front,
// that is not the command's.
func TestRunLeavesTheTerminalToWhoReadsFromIt(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for what, script := range map[string]string{
		"the shell, from the background": `set -m; "$0" run k -- sh -c 'echo ready; read x < "$0"' "$1" & read x; echo "got:$x"; echo > "$1"; wait`,
		"the end of a pipeline":          `set -m; "$0" run k -- sh -c 'echo ready; read x < "$0"' "$1" | sh -c 'read x; echo "$x"; read x < /dev/tty; echo "got:$x"; echo > "$0"' "$1"`,
		"a script that goes on":          `"$0" run k -- true; echo ready; read x; echo "got:$x"`,
	} {
		cmd := program(t, url)
		end := filepath.Join(t.TempDir(), "end")
		require.NoError(t, syscall.Mkfifo(end, 0o600))
		sh := exec.Command("sh", "-c", script, cmd.Path, end)
		sh.Env = cmd.Env
		tty, out := onTerminal(t, sh)
		awaitText(t, out, "ready")
		_, err := tty.WriteString("hello\n")
		require.NoError(t, err)
		awaitText(t, out, "got:")
		assert.Contains(t, out.String(), "got:hello", what)
		assert.NotContains(t, out.String(), "suspended", what)
	}
}

// A command need not read from the terminal to have it.
func TestRunIsInTheForeground(t *testing.T) {
	t.Parallel()
	cmd := program(t, "redis://"+servertest.Single(t).Addr)
	inFront := `in_front() { read -r _ _ _ _ group _ _ front _ < /proc/$$/stat; [ $group = $front ]; }`
	sh := exec.Command("sh", "-c", `set -m; "$0" run k -- sh -c '`+inFront+`; until in_front; do sleep 0.02; done; echo "it is"'`, cmd.Path)
	sh.Env = cmd.Env
	_, out := onTerminal(t, sh)
	awaitText(t, out, "it is")
}

// A command that is killed leaves the terminal as it needed it.
func TestRunRestoresTheTerminal(t *testing.T) {
	t.Parallel()
	cmd := program(t, "redis://"+servertest.Single(t).Addr)
	sh := exec.Command("sh", "-c", `"$0" run k -- sh -c 'stty -echo; kill -KILL $$'; stty -a; echo "."`, cmd.Path)
	sh.Env = cmd.Env
	_, out := onTerminal(t, sh)
	awaitText(t, out, ".\r\n")
	assert.Contains(t, out.String(), " echo ")
}

// Where no shell could make lockctl go on, Ctrl-Z must not stop it: behind ssh -t, in a container.
func TestCtrlZStopsNothingThatNobodyCouldContinue(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for what, script := range map[string]string{
		"it leads the session": `exec "$0" run k -- sh -c "$2" "$1" < /dev/null`,
		"a script leads it":    `"$0" run k -- sh -c "$2" "$1" < /dev/null; exit $?`,
	} {
		cmd := program(t, url)
		end := filepath.Join(t.TempDir(), "end")
		require.NoError(t, syscall.Mkfifo(end, 0o600))
		sh := exec.Command("sh", "-c", script, cmd.Path, end, `echo ready; read x < "$0"; echo "got:$x"`)
		sh.Env = cmd.Env
		tty, out := onTerminal(t, sh)
		awaitText(t, out, "ready")
		_, err := tty.Write([]byte{26}) // Ctrl-Z
		require.NoError(t, err)
		awaitText(t, out, "suspended")
		go func() { _ = os.WriteFile(end, []byte("on\n"), 0o600) }() // when the command opens it
		awaitText(t, out, "got:on")
		_ = sh.Wait()
		assert.Zero(t, sh.ProcessState.ExitCode(), what)
	}
}

// Ctrl-Z stops the job, so that the shell goes on, and fg continues it.
func TestRunCanBeSuspended(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	cmd := program(t, url)
	script := `set -m; "$0" run k -- sh -c 'read x; echo ready; read x; echo "got:$x"'; echo stopped; read y; fg >/dev/null; echo "code:$?"`
	sh := exec.Command("sh", "-c", script, cmd.Path)
	sh.Env = cmd.Env
	tty, out := onTerminal(t, sh)
	says := func(text string) { t.Helper(); awaitText(t, out, text) }
	_, err := tty.WriteString("it has the terminal\n") // which it is given after it has begun
	require.NoError(t, err)
	says("ready")
	_, err = tty.Write([]byte{26}) // Ctrl-Z
	require.NoError(t, err)
	says("suspended")
	says("stopped")
	_, err = tty.WriteString("for the shell\n")
	require.NoError(t, err)
	_, err = tty.WriteString("for the command\n")
	require.NoError(t, err)
	says("got:for the command")
	says("code:0")
}

// The command is a part of the job also where its streams lead elsewhere, so that it is not in the
// foreground: a job that the shell calls stopped does nothing.
func TestWhatIsNotInTheForegroundIsSuspendedToo(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	for what, job := range map[string][2]string{
		"a file to read":  {"", "< /dev/null"},
		"a file to write": {"", "> /dev/null"},
		"a pipeline":      {"", "| cat"},
		"another lockctl": {`"$0" run outer --`, "> /dev/null"},
		"the command of another lockctl, which has the terminal": {`"$0" run another -- sh -c 'exec "$@" > /dev/null' sh`, ""},
	} {
		cmd := program(t, url)
		end := filepath.Join(t.TempDir(), "end")
		require.NoError(t, syscall.Mkfifo(end, 0o600))
		script := `set -m; ` + job[0] + ` "$0" run "$2" -- sh -c 'echo "pid:$$." >&2; read x < "$0"; echo "it goes on" >&2' "$1" ` + job[1] +
			`; echo stopped; read y; fg > /dev/null; echo "code:$?"`
		sh := exec.Command("sh", "-c", script, cmd.Path, end, what)
		sh.Env = cmd.Env
		tty, out := onTerminal(t, sh)
		awaitText(t, out, ".")
		_, pid, _ := strings.Cut(out.String(), "pid:")
		pid, _, _ = strings.Cut(pid, ".")
		command, err := strconv.Atoi(pid)
		require.NoError(t, err, out)
		_, err = tty.Write([]byte{26}) // Ctrl-Z
		require.NoError(t, err)
		awaitText(t, out, "stopped")
		assert.Equal(t, "T", stateOf(command), what)
		assert.Contains(t, out.String(), "suspended: the lock is not renewed", what)
		require.NotContains(t, out.String(), "it goes on", what)
		_, err = tty.WriteString("for the shell\n")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(end, []byte("\n"), 0o600))
		awaitText(t, out, "it goes on")
		awaitText(t, out, "code:0")
	}
}

// A script that ignores Ctrl-Z is not suspended with it, so that no shell would make lockctl go on.
func TestCtrlZIsLeftIgnored(t *testing.T) {
	t.Parallel()
	cmd := program(t, "redis://"+servertest.Single(t).Addr)
	end := filepath.Join(t.TempDir(), "end")
	require.NoError(t, syscall.Mkfifo(end, 0o600))
	sh := exec.Command("sh", "-c", `trap '' TSTP; "$0" run k -- sh -c 'echo ready; read x < "$0"; echo "got:$x"' "$1" < /dev/null; echo "code:$?"`, cmd.Path, end)
	sh.Env = cmd.Env
	tty, out := onTerminal(t, sh)
	awaitText(t, out, "ready")
	_, err := tty.Write([]byte{26}) // Ctrl-Z
	require.NoError(t, err)
	awaitText(t, out, "^Z") // until when the terminal may throw output away
	require.NoError(t, os.WriteFile(end, []byte("on\n"), 0o600))
	awaitText(t, out, "got:on")
	awaitText(t, out, "code:0")
	assert.NotContains(t, out.String(), "suspended")
}

// A command that does not heed Ctrl-Z may be stopped later, by who will make it go on.
func TestWhoStopsTheCommandLaterMakesItGoOn(t *testing.T) {
	r := &runner{stopped: time.Now().Add(-2 * stopTime)}
	assert.NotPanics(t, func() { r.heed(guard.Event{Stopped: syscall.SIGSTOP}) }, "nothing is done")
	r.stopped = time.Now()
	assert.Panics(t, func() { r.heed(guard.Event{Stopped: syscall.SIGSTOP}) }, "the lease is looked at")
	r = &runner{console: &console{fd: -1}}
	assert.NotPanics(t, func() { r.heed(guard.Event{Stopped: syscall.SIGSTOP}) }, "it has nothing to do with the terminal")
	for _, c := range []console{{fd: -1, input: true}, {fd: -1, given: true}} {
		r = &runner{console: &c}
		assert.Panics(t, func() { r.heed(guard.Event{Stopped: syscall.SIGSTOP}) }, "it may be by the terminal")
	}
}

// A job that goes on in the background leaves the terminal to the shell, which would be at its end
// without it.
func TestRunInTheBackgroundTakesNoTerminal(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	cmd := program(t, url)
	// It waits without further processes: one that is stopped between vfork and exec keeps sh from being so.
	end := filepath.Join(t.TempDir(), "end")
	require.NoError(t, syscall.Mkfifo(end, 0o600))
	script := `set -m; "$0" run k -- sh -c 'read x; echo ready; read x < "$0"' "$1"; echo stopped; bg > /dev/null; wait; echo ended; read x; echo "got:$x"`
	sh := exec.Command("sh", "-c", script, cmd.Path, end)
	sh.Env = cmd.Env
	tty, out := onTerminal(t, sh)
	_, err := tty.WriteString("it has the terminal\n") // which it is given after it has begun
	require.NoError(t, err)
	awaitText(t, out, "ready")
	_, err = tty.Write([]byte{26}) // Ctrl-Z
	require.NoError(t, err)
	awaitText(t, out, "stopped")
	require.NoError(t, os.WriteFile(end, []byte("\n"), 0o600))
	awaitText(t, out, "ended")
	_, err = tty.WriteString("for the shell\n")
	require.NoError(t, err)
	awaitText(t, out, "got:")
	assert.Contains(t, out.String(), "got:for the shell")
}

// Who uses Ctrl-C where lockctl runs or waits in a script ends the script, as with any other
// command: bash ends it only if the command was ended by the signal.
func TestCtrlCEndsTheScript(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	c := observer(t, url)
	const awaited = "echo ready; while :; do sleep 0.05; done" // sh may lose a signal just before it executes a program
	for _, shell := range []string{"bash", "sh"} {
		if _, err := exec.LookPath(shell); err != nil {
			continue
		}
		for what, script := range map[string]string{
			"it runs":               `"$0" run %s -- sh -c '` + awaited + `'`,
			"it runs in a pipeline": `"$0" run %s -- sh -c '` + awaited + `' | cat`,
			"it reads from a file":  `"$0" run %s -- sh -c '` + awaited + `' < /dev/null`,
			"it waits":              `"$0" run %s -- true`,
		} {
			name := shell + ", " + what
			if what == "it waits" {
				hold(t, c, name)
			}
			cmd := program(t, url)
			sh := exec.Command(shell, "-c", fmt.Sprintf(script, "'"+name+"'")+"; echo it goes on", cmd.Path)
			sh.Env = cmd.Env
			tty, out := onTerminal(t, sh)
			if what == "it waits" {
				awaitWaiters(t, c, name, 1)
			} else {
				awaitText(t, out, "ready")
			}
			_, err := tty.Write([]byte{3})
			require.NoError(t, err)
			_ = sh.Wait()
			status := sh.ProcessState.Sys().(syscall.WaitStatus)
			assert.Equal(t, syscall.SIGINT, status.Signal(), "%s: %v: %s", name, sh.ProcessState, out)
			assert.NotContains(t, out.String(), "it goes on", name)
			if what != "it waits" {
				s, err := c.Inspect(t.Context(), name)
				require.NoError(t, err)
				assert.False(t, s.Held(), "%s: the lock was given up first", name)
			}
		}
	}
}

// A lock that is lost is not lost at some time to come, nor is its end kept from the shell by a
// Ctrl-Z while the command is being ended.
func TestALostLockIsNotSuspended(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	cmd := program(t, url)
	script := `set -m; "$0" run --ttl 8s --grace 2s k -- sh -c 'trap "echo asked; read x; exit 0" TERM; echo ready; while :; do sleep 0.05; done'; echo "code:$?"`
	sh := exec.Command("sh", "-c", script, cmd.Path)
	sh.Env = cmd.Env
	tty, out := onTerminal(t, sh)
	awaitText(t, out, "ready")
	code, _, errs := lockctl(t, url, "break", "k", "--yes")
	require.Zero(t, code, errs)
	awaitText(t, out, "asked")
	_, err := tty.Write([]byte{26}) // Ctrl-Z
	require.NoError(t, err)
	awaitText(t, out, "code:")
	assert.Contains(t, out.String(), fmt.Sprint("code:", exitLost))
	assert.NotContains(t, out.String(), "suspended")
}

// nobodyReads makes what lockctl has to say go to a pipe that nobody reads from any more, as
// behind 2>&1 | head -1 or a log collector that has died.
func nobodyReads(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, r.Close())
	t.Cleanup(func() { _ = w.Close() })
	cmd.Stderr = w
}

// What lockctl says while it has a lock is less important than the lock: by itself a program
// is ended where it writes to nobody.
func TestRunWithNobodyToSayItTo(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	cmd := program(t, url, shell("echo done; exit 3", "-v")...)
	nobodyReads(t, cmd)
	p := startCmd(t, cmd)
	assert.Equal(t, 3, p.code(t), "-1 is the end by a signal")
	assert.Equal(t, "done\n", p.out.String())
	s, err := observer(t, url).Inspect(t.Context(), "k")
	require.NoError(t, err)
	assert.False(t, s.Held(), "it was given up")
}

// A command whose lock was broken is ended, whether or not that can be said. Without lockctl it
// would go on until the lease's end, beside the next holder's.
func TestRunEndsTheCommandWithNobodyToSayItTo(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	ready := filepath.Join(t.TempDir(), "ready")
	cmd := program(t, url, shell(`exec 2> /dev/null; trap 'echo asked; exit 0' TERM; : > `+ready+`; while :; do sleep 0.05; done`, "--ttl", "8s", "--grace", "2s")...)
	nobodyReads(t, cmd)
	p := startCmd(t, cmd)
	awaitFile(t, ready)
	code, _, errs := lockctl(t, url, "break", "k", "--yes")
	require.Zero(t, code, errs)
	assert.Equal(t, exitLost, p.code(t), "-1 is the end by a signal")
	assert.Equal(t, "asked\n", p.out.String())
}

// hangsAfterTheGrant starts a lockctl that waits, and gives it the lock when the server does not
// answer it any more: the lease, which is for what was left of its place, cannot be lengthened.
func hangsAfterTheGrant(t *testing.T) (*proc, *wire.Wire, string) {
	t.Helper()
	server := servertest.Single(t)
	network := wire.New(wire.TCP(server.Addr))
	t.Cleanup(func() { _ = network.Close() })
	through, err := network.Listen()
	require.NoError(t, err)
	c := observer(t, "redis://"+server.Addr)
	for {
		earlier := network.Count(wire.Match{})
		lease := hold(t, c, "k")
		p := start(t, "redis://"+through, shell("echo ran")...)
		awaitWaiters(t, c, "k", 1)
		network.PartitionRequests()
		waiting := scripts(network, earlier)
		require.NoError(t, lease.Unlock(t.Context()))
		asks, held := false, true
		eventually(t, "it asks for the whole of the lease, or is too late for that", func() bool {
			asks = len(scripts(network, earlier)) > len(waiting) // with another script than who waits
			s, err := c.Inspect(t.Context(), "k")
			require.NoError(t, err)
			held = s.Held()
			return asks || !held
		})
		if asks && held {
			return p, network, "redis://" + server.Addr
		}
		// The machine was too slow for its place in the queue, or for the lease: it waits.
		require.NoError(t, p.Process.Kill())
		<-p.ended
		network.Heal()
	}
}

// scripts are those that were run through a network after so many other requests.
func scripts(network *wire.Wire, earlier int) map[string]bool {
	names := map[string]bool{}
	for _, request := range network.Requests(wire.Match{})[earlier:] {
		if request.Args[0] == "EVALSHA" {
			names[request.Args[1]] = true
		}
	}
	return names
}

func TestRunCanBeInterruptedBetweenTheWaitAndTheCommand(t *testing.T) {
	t.Parallel()
	p, _, _ := hangsAfterTheGrant(t)
	require.NoError(t, p.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, exitSignal+int(syscall.SIGTERM), p.code(t), p.err)
	assert.Empty(t, p.out.String())
}

// Exit code 79 says that work may be half done.
func TestRunThatLosesTheLockBeforeTheCommandHasDoneNothing(t *testing.T) {
	t.Parallel()
	for what, then := range map[string]func(network *wire.Wire, server string){
		"the server does not answer": func(*wire.Wire, string) {},
		"it was broken": func(network *wire.Wire, server string) {
			code, _, errs := lockctl(t, server, "break", "k", "--yes")
			require.Zero(t, code, errs)
			network.Heal()
		},
	} {
		p, network, server := hangsAfterTheGrant(t)
		then(network, server)
		assert.Equal(t, exitUnreachable, p.code(t), "%s: %s", what, p.err)
		assert.Contains(t, p.err.String(), "the command was not started", what)
		assert.Empty(t, p.out.String(), what)
	}
}

// What belongs to a command could not be found, and ended with its lease.
func TestRunWhereProcIsOfOtherProcessesTakesNothing(t *testing.T) {
	t.Parallel()
	srv := servertest.Single(t)
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID}
	probe := exec.Command("true")
	probe.SysProcAttr = attr
	if err := probe.Run(); err != nil {
		t.Skipf("NOT TESTED IN A NAMESPACE OF PROCESSES: none can be made: %v", err)
	}
	apart := func(args ...string) *proc {
		cmd := program(t, "redis://"+srv.Addr, args...)
		cmd.SysProcAttr = attr
		return startCmd(t, cmd)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	p := apart("run", "k", "--", "touch", ran)
	assert.Equal(t, exitFailed, p.code(t))
	assert.Contains(t, p.err.String(), "/proc")
	assert.NoFileExists(t, ran)
	keys, err := srv.Do("KEYS", "*")
	require.NoError(t, err)
	assert.Empty(t, keys)

	p = apart("doctor")
	assert.Equal(t, exitFindings, p.code(t))
	assert.Contains(t, p.out.String(), "runs nothing here")
}

// As the entry point of a container lockctl is the first process, to whom signals do nothing that it has
// not asked for, and orphans come.
func TestRunAsTheFirstProcess(t *testing.T) {
	t.Parallel()
	url := "redis://" + servertest.Single(t).Addr
	first := func(script string) *exec.Cmd {
		cmd := program(t, url)
		unshare := exec.Command("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child",
			cmd.Path, "run", "--ttl=80s", "--grace=20s", "k", "--", "sh", "-c", script)
		unshare.Env = cmd.Env
		return unshare
	}
	probe := first("")
	probe.Args = append(probe.Args[:7], "true")
	if said, err := probe.CombinedOutput(); err != nil {
		t.Skipf("NOT TESTED AS THE FIRST PROCESS: no namespace can be made: %v: %s", err, said)
	}
	left := filepath.Join(t.TempDir(), "left")
	p := startCmd(t, first(`trap 'exit 5' TERM
		(sh -c 'trap "echo x >`+left+`; exit" TERM; echo ready; while :; do sleep 0.05; done' &) | read x
		kill -TERM 1; while :; do sleep 0.05; done`))
	assert.Equal(t, 5, p.code(t), p.err)
	assert.FileExists(t, left, "what the command has left running has been ended as well")
}
