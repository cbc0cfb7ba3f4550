//go:build unix && !linux

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

func status(s *os.ProcessState) (code int, sig syscall.Signal) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, w.Signal()
	}
	return s.ExitCode(), 0
}
