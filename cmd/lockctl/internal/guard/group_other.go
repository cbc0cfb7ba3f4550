//go:build !unix

package guard

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
)

func lead(*exec.Cmd) {}

// send kills the command, as there are no signals here.
func send(p *os.Process, _ syscall.Signal) error { return p.Kill() }

func ask(p *os.Process) { _ = p.Kill() }

func wait(cmd *exec.Cmd, _ func(by syscall.Signal)) (code int, sig syscall.Signal, err error) {
	if err = cmd.Wait(); errors.As(err, new(*exec.ExitError)) {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), 0, err
}
