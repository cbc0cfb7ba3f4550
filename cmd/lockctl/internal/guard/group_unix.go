//go:build unix

package guard

import (
	"os"
	"os/exec"
	"syscall"
)

// lead gives the command a process group of its own.
func lead(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// send sends a signal to the command's process group.
func send(p *os.Process, sig syscall.Signal) error { return syscall.Kill(-p.Pid, sig) }

// ask asks the command's process group to end.
func ask(p *os.Process) {
	_ = send(p, syscall.SIGTERM)
	_ = send(p, syscall.SIGCONT) // a stopped process would not hear of it
}

// wait returns how the command has ended, and calls stopped when it is stopped, which
// [exec.Cmd.Wait] does not notice.
func wait(cmd *exec.Cmd, stopped func(by syscall.Signal)) (code int, sig syscall.Signal, err error) {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return 0, 0, os.NewSyscallError("wait4", err)
		case status.Stopped():
			stopped(status.StopSignal())
		case status.Signaled():
			return 0, status.Signal(), nil
		default:
			return status.ExitStatus(), 0, nil
		}
	}
}
