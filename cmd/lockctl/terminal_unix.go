//go:build unix

package main

import (
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"
)

func isTerminalFile(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

// A console is the terminal that lockctl and its command share. Only one process group
// may read from it at a time, and is sent the signals of Ctrl-C and Ctrl-Z.
type console struct {
	fd    int
	input bool        // it is the standard input
	state *term.State // as it was before the command
	given bool        // to the command
}

// openConsole returns the terminal of the standard input, or else the one that the command may open
// by itself, as to ask for a password; nil if there is none. It stays open until lockctl ends.
func openConsole() *console {
	c := &console{fd: int(os.Stdin.Fd())}
	if c.input = term.IsTerminal(c.fd); !c.input {
		var err error
		if c.fd, err = unix.Open("/dev/tty", unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			return nil
		}
	}
	c.state, _ = term.GetState(c.fd)
	return c
}

// ours tells whether lockctl's group has the terminal.
func (c *console) ours() bool { return c.has(unix.Getpgrp()) }

// has tells whether a process group has the terminal.
func (c *console) has(group int) bool {
	front, err := unix.IoctlGetInt(c.fd, unix.TIOCGPGRP)
	return err == nil && front == group
}

// alone tells that no pipeline shares the terminal with the command. Such a pipeline would be
// cut off from the terminal.
func (c *console) alone() bool { return c.input && term.IsTerminal(int(os.Stdout.Fd())) }

// isFor tells whether the command is to have the terminal from its start.
func (c *console) isFor() bool { return c != nil && c.alone() && c.ours() }

// concerned tells whether the stop of the command, by that signal, has to do with the terminal.
func (c *console) concerned(by syscall.Signal) bool {
	return c != nil && (c.input || c.given || wantsTerminal(by))
}

// give gives the terminal to the command's group.
func (c *console) give(group int) {
	signal.Ignore(syscall.SIGTTOU) // which would stop lockctl where it is not in front
	if unix.IoctlSetPointerInt(c.fd, unix.TIOCSPGRP, group) == nil {
		c.given = true
	}
}

// takeBack gets the terminal back, if it was given. A command that was killed has not left
// it as it was.
func (c *console) takeBack(killed bool) (given bool) {
	if c == nil || !c.given {
		return false
	}
	c.give(unix.Getpgrp())
	c.given = false
	if killed && c.state != nil {
		_ = term.Restore(c.fd, c.state)
	}
	return true
}

// suspend stops lockctl with all of its job, until the shell makes it go on. told means that the others
// in lockctl's group have been told already, by a Ctrl-Z that was for that group. caught is the channel on
// which Ctrl-Z arrives, nil if lockctl does not catch it.
func suspend(caught chan os.Signal, told bool) {
	resumed := make(chan os.Signal, 1)
	signal.Notify(resumed, syscall.SIGCONT)
	defer signal.Stop(resumed)
	if caught != nil {
		signal.Ignore(syscall.SIGTSTP) // the one that is sent to all, or another one
		defer signal.Notify(caught, syscall.SIGTSTP)
	}
	if !told {
		_ = syscall.Kill(0, syscall.SIGTSTP)
	}
	if caught != nil {
		_ = syscall.Kill(os.Getpid(), uncaughtStop())
	}
	select {
	case <-resumed:
	case <-time.After(time.Second): // no shell could make lockctl go on, and the system knows that
	}
	select {
	case <-caught: // from before it stopped
	default:
	}
}

// uncaughtStop is a signal that stops lockctl as TSTP does where TSTP is not caught. TTIN has no effect, either,
// where no shell could make lockctl go on; but an outer lockctl takes it to mean that its command wants the
// terminal. That concerns only a lockctl that leads its group. Its parent can be looked at then, and is the one
// that makes it go on.
func uncaughtStop() syscall.Signal {
	parent := os.Getppid()
	theirs, err := unix.Getsid(parent)
	ours, _ := unix.Getsid(0)
	if group, e := unix.Getpgid(parent); err == nil && e == nil && theirs == ours && group != unix.Getpgrp() {
		return syscall.SIGSTOP
	}
	return syscall.SIGTTIN
}

// stopsIgnored tells whether TSTP was ignored when lockctl began, as by a script that is not to be suspended: nobody
// would make lockctl go on. [signal.Ignored] does not know this of TSTP. Only Linux tells it; elsewhere the result
// is false.
func stopsIgnored() bool {
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigIgn:"); ok {
			ignored, _ := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			return ignored>>(syscall.SIGTSTP-1)&1 == 1
		}
	}
	return false
}

// inFront tells whether lockctl's group has the terminal that one of the standard streams leads
// to. If it has, Ctrl-C is sent to lockctl, and to the script that lockctl is a part of.
func inFront() bool {
	for _, f := range []*os.File{os.Stdin, os.Stdout, os.Stderr} {
		if (&console{fd: int(f.Fd())}).ours() {
			return true
		}
	}
	return false
}

// interrupt ends lockctl by the signal of Ctrl-C itself. After a program that exits by itself, even with
// 130, bash goes on with its script or its loop, as if the program had caught Ctrl-C and made something
// else of it. With others, the whole of lockctl's group, to which the script belongs, is sent the signal:
// Ctrl-C has reached the command alone then. interrupt returns where the signal does not end lockctl.
func interrupt(others bool) {
	if os.Getpid() == 1 || signal.Ignored(syscall.SIGINT) { // 1 is the process that a system, or a container, begins with
		return
	}
	signal.Reset(syscall.SIGINT)
	to := os.Getpid()
	if others {
		to = 0
	}
	_ = syscall.Kill(to, syscall.SIGINT)
	time.Sleep(time.Second) // it is on its way
}

// passedOn are the signals that lockctl passes on to its command. HUP and INT stay ignored, for
// the command too, if they were when lockctl began; for the others Go's runtime does not keep that.
func passedOn() []os.Signal {
	var signals []os.Signal
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH} {
		if !signal.Ignored(sig) {
			signals = append(signals, sig)
		}
	}
	return signals
}

// wantsTerminal tells whether a command was stopped because it used the terminal while it
// was not in front.
func wantsTerminal(sig syscall.Signal) bool { return sig == syscall.SIGTTIN || sig == syscall.SIGTTOU }

const (
	signalContinue = syscall.SIGCONT
	signalStop     = syscall.SIGTSTP
	signalResize   = syscall.SIGWINCH
)
