//go:build !unix

package guard

import (
	"os"
	"os/exec"
	"syscall"
)

func lead(*exec.Cmd) {}

// send kills the command, as there are no signals here.
func send(p *os.Process, _ syscall.Signal) error { return p.Kill() }

func status(s *os.ProcessState) (code int, sig syscall.Signal) { return s.ExitCode(), 0 }
