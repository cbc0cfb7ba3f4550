package harness

import (
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Supported says whether measuring is possible on this system.
const Supported = true

// monotonic is CLOCK_MONOTONIC in nanoseconds.
func monotonic() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Linux has this clock
	}
	return t.Nano()
}

// cpuTime is what this process has used, in user and in system mode.
func cpuTime() time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		panic(err) // the arguments are right
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// mapShared maps size bytes of a file, or of anonymous memory if there is no file.
func mapShared(f *os.File, size int) ([]byte, error) {
	fd, flags := -1, unix.MAP_SHARED|unix.MAP_ANON
	if f != nil {
		fd, flags = int(f.Fd()), unix.MAP_SHARED
	}
	return unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
}

// DieWithParent makes a command that is not yet started end with the thread that
// starts it, however that ends.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

func suspend(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }
func proceed(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
