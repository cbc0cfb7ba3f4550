//go:build unix && !linux

package servertest

import (
	"bytes"
	"os/exec"
	"strconv"
	"syscall"
)

func childAttr() *syscall.SysProcAttr { return nil }

// stopped reports whether SIGSTOP has taken effect.
func stopped(pid int) (bool, error) {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return bytes.HasPrefix(state, []byte("T")), err
}
