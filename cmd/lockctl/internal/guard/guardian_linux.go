package guard

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// guardianArg is the first argument of a process that is a guardian. The second is the
// descriptor of its line.
const guardianArg = "__guardian"

// Main turns this process into a guardian, if it was started as one, and does not
// return then. Programs that use the package call it first of all.
func Main() {
	if len(os.Args) < 3 || os.Args[1] != guardianArg {
		return
	}
	fd, err := strconv.Atoi(os.Args[2])
	if err != nil {
		os.Exit(2)
	}
	// The command is killed with the thread that started it.
	runtime.LockOSThread()
	unix.CloseOnExec(fd)
	var first order
	if err := guardian(newLine(fd), &first); err != nil {
		complain(err, first.Command != nil && first.Command.JSON)
		os.Exit(1)
	}
	os.Exit(0)
}

// complain says what lockctl cannot say any more.
func complain(err error, asJSON bool) {
	if asJSON {
		_ = json.NewEncoder(os.Stderr).Encode(map[string]string{"error": err.Error()})
		return
	}
	fmt.Fprintln(os.Stderr, "lockctl:", err)
}

// patience is how long the killing of what does not die goes on. A process that was killed does nothing
// any more, but may take a while to be gone where there are few processors for many processes.
const patience = 10 * time.Second

// A keeper is a guardian at work.
type keeper struct {
	line     *line
	alarm    *alarm
	times    Times
	deadline instant
	tree     tree

	exited bool
	status syscall.WaitStatus
	asked  instant // when the tree was asked to end, 0 if it was not
	ended  bool    // because of the lease, or by order
}

// A change is what has become of a child.
type change struct {
	pid    int
	status syscall.WaitStatus
}

// guardian returns when the command has ended. It leaves the first order in first.
func guardian(l *line, first *order) error {
	if err := l.Decode(first); err != nil || first.Command == nil {
		return errors.New("the guardian of a command was started without one")
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("guard: adopting orphans: %w", err)
	}
	alarm, err := newAlarm()
	if err != nil {
		return err
	}
	k := &keeper{line: l, alarm: alarm, times: first.Times, deadline: first.Deadline}
	if now() >= k.killAt() {
		return l.Encode(report{Late: true})
	}
	dodgeSignals()
	session, err := unix.Getsid(0)
	if err != nil {
		return err
	}
	c := first.Command
	pid, err := syscall.ForkExec(c.Path, c.Args, &syscall.ProcAttr{
		Env: c.Env, Files: []uintptr{0, 1, 2},
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		errno, ok := errors.AsType[syscall.Errno](err)
		if !ok {
			errno = syscall.EINVAL
		}
		return l.Encode(report{Failed: errno})
	}
	k.tree = tree{root: os.Getpid(), group: pid, session: session}
	signal.Ignore(syscall.SIGTTOU) // the guardian says what it has to say from the background, too
	_ = l.Encode(report{Started: pid})
	return k.keep()
}

// dodgeSignals keeps signals that are meant for lockctl or the command from affecting the guardian.
// They are caught and not ignored, since the command would inherit that they are ignored. HUP and INT
// stay ignored if they are already; for the others Go's runtime does not keep that.
func dodgeSignals() {
	caught := make(chan os.Signal, 1)
	for _, sig := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTSTP, syscall.SIGTTIN} {
		if !signal.Ignored(sig) {
			signal.Notify(caught, sig)
		}
	}
}

func (k *keeper) killAt() instant { return k.deadline.add(-k.times.Margin) }

// askAt is when the command is asked to end.
func (k *keeper) askAt() instant { return k.killAt().add(-k.times.Grace) }

// next is when there is something to do.
func (k *keeper) next() instant {
	if k.asked == 0 {
		return k.askAt()
	}
	return min(k.killAt(), k.asked.add(k.times.Grace))
}

// keep sees the command through.
func (k *keeper) keep() error {
	orders := make(chan order)
	go func() {
		defer close(orders)
		for {
			var o order
			if k.line.Decode(&o) != nil {
				return // lockctl is gone
			}
			orders <- o
		}
	}()
	changes := make(chan change)
	go k.reap(changes)
	for {
		if err := k.alarm.set(k.next()); err != nil {
			return err
		}
		select {
		case o, ok := <-orders:
			if !ok {
				orders = nil
				continue
			}
			k.obey(o)
		case c, ok := <-changes:
			if !ok {
				changes = nil
			} else if c.pid == k.tree.group {
				k.heed(c.status)
			}
		case <-k.alarm.C:
			switch at := now(); {
			case at < k.next(): // it rang for an instant that has moved on
			case k.asked == 0:
				k.ended = true
				k.ask()
			default:
				return k.finish(k.tree.kill(patience))
			}
		}
		if k.exited {
			left, _ := k.tree.members()
			switch {
			case len(left) == 0:
				return k.finish(nil)
			case k.asked == 0:
				k.ask() // what the command has left behind
			}
		}
	}
}

// reap waits for all children: the command and the orphans that are adopted.
func (k *keeper) reap(changes chan<- change) {
	defer close(changes)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WUNTRACED, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return // there is no child left
		default:
			changes <- change{pid, status}
		}
	}
}

func (k *keeper) obey(o order) {
	k.deadline = max(k.deadline, o.Deadline)
	if o.Signal != 0 {
		_ = syscall.Kill(-k.tree.group, o.Signal)
	}
	if o.End && !k.ended {
		k.ended = true
		k.ask()
	}
}

// heed notes what has become of the command.
func (k *keeper) heed(status syscall.WaitStatus) {
	if status.Stopped() {
		_ = k.line.Encode(report{Stopped: status.StopSignal()})
		return
	}
	k.exited, k.status = true, status
}

// ask asks the tree to end.
func (k *keeper) ask() {
	if k.asked == 0 {
		k.asked = now()
	}
	k.tree.signal(syscall.SIGTERM)
	k.tree.signal(syscall.SIGCONT) // a stopped process would not hear of it
}

// finish reports the end.
func (k *keeper) finish(left []int) error {
	if !k.exited {
		k.status = syscall.WaitStatus(syscall.SIGKILL)
	}
	err := k.line.Encode(report{Result: &wireResult{Status: k.status, Ended: k.ended, Left: left}})
	switch {
	case err == nil: // lockctl says how it ended
	case len(left) > 0:
		return fmt.Errorf("could not end the processes %v", left)
	case k.ended:
		return errors.New("lockctl was killed; its command was ended before the lock ran out")
	}
	return nil
}
