package servertest

import (
	"bytes"
	"fmt"
	"os"
	"syscall"
)

func childAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// stopped reports whether SIGSTOP has taken effect.
func stopped(pid int) (bool, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false, err
	}
	// pid (name) state …, where the name may hold anything
	_, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" "))
	return ok && bytes.HasPrefix(state, []byte("T")), nil
}
