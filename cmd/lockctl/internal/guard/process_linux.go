package guard

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Guarded tells whether commands have a guardian on this system.
const Guarded = true

// Check tells what is lacking here to guard a command, nil if nothing is. What belongs to a command is
// found in /proc, by the numbers that processes have in their own namespace.
func Check() error { return checkProc("/proc/self") }

func checkProc(self string) error {
	pid, err := os.Readlink(self)
	if err != nil {
		return fmt.Errorf("guard: commands are guarded by what /proc shows, which has to be mounted: %w", err)
	}
	if pid != strconv.Itoa(os.Getpid()) {
		return errors.New("guard: commands are guarded by what /proc shows, and that here is of another namespace of processes; mount the one of this (unshare --mount-proc, nsenter --mount)")
	}
	return nil
}

// A Process is a command and its guardian.
type Process struct {
	events   chan Event
	line     *line
	guardian int
	times    Times

	mu       sync.Mutex
	clock    translator
	deadline time.Time
	at       instant // the instant of deadline
	group    int     // the command's, 0 while it is not known
	over     bool
	late     bool // the guardian has not ended the command in time
	backstop *time.Timer
}

// A Moment is taken before a lease is asked for.
type Moment struct{ clock translator }

// Now returns a Moment.
func Now() Moment { return Moment{translator{asleep()}} }

// Suspended tells whether the machine was suspended since m was taken. If it was, what is
// known of a lease may be out of date.
func (m Moment) Suspended() bool { return asleep()-m.clock.asleep > 100*time.Millisecond }

// Start runs a command under a lease that lasts until deadline, which was not known yet
// at the moment asked. Its events have to be received.
//
// A [*StartError], here or in the Result, is why the command could not be started; it is
// [ErrTooLate] where too little is left of the lease.
func Start(c Command, t Times, asked Moment, deadline time.Time) (*Process, error) {
	p := &Process{events: make(chan Event), times: t, clock: asked.clock, deadline: deadline}
	p.at = p.clock.instant(deadline)
	if now() >= p.at.add(-t.Margin) {
		return nil, &StartError{ErrTooLate}
	}
	// This process adopts the orphans when the guardian dies.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, fmt.Errorf("guard: adopting orphans: %w", err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("guard: socket pair: %w", err)
	}
	pid, err := startGuardian(pair[1])
	unix.Close(pair[1])
	if err != nil {
		unix.Close(pair[0])
		return nil, fmt.Errorf("guard: start of the guardian: %w", err)
	}
	_ = unix.SetNonblock(pair[0], true)
	p.line, p.guardian = newLine(pair[0]), pid
	p.backstop = time.AfterFunc(p.untilBackstop(), p.stepIn)
	first := order{Command: &c, Times: t, Deadline: p.at}
	go p.listen(p.line.Encode(first))
	return p, nil
}

// startGuardian starts this program as a guardian with the given end of a line. The
// descriptor keeps its number, so that the descriptors that lockctl has inherited for the
// command keep theirs.
func startGuardian(fd int) (pid int, err error) {
	syscall.ForkLock.Lock()
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	syscall.ForkLock.Unlock()
	if err != nil {
		return 0, err
	}
	return syscall.ForkExec("/proc/self/exe", []string{os.Args[0], guardianArg, strconv.Itoa(fd)}, &syscall.ProcAttr{
		Env: os.Environ(), Files: []uintptr{0, 1, 2},
		// A signal to lockctl's process group must not reach the guardian.
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
}

// Events returns what happens to the command. It is closed after the Result.
func (p *Process) Events() <-chan Event { return p.events }

// listen passes on what the guardian reports. err is why it cannot be spoken to, if that is so.
func (p *Process) listen(err error) {
	defer close(p.events)
	var result *Result
	for err == nil && result == nil {
		var r report
		if err = p.line.Decode(&r); err != nil {
			break
		}
		switch {
		case r.Late:
			result = &Result{Err: &StartError{ErrTooLate}}
		case r.Failed != 0:
			result = &Result{Err: &StartError{r.Failed}}
		case r.Started != 0:
			p.mu.Lock()
			p.group = r.Started
			p.mu.Unlock()
			p.events <- Event{Started: r.Started}
		case r.Stopped != 0:
			p.events <- Event{Stopped: r.Stopped}
		case r.Result != nil:
			result = r.Result.result()
		}
	}
	if result == nil {
		result = &Result{Signal: syscall.SIGKILL, Ended: true, Left: p.endAll(), Err: ErrGuardian}
	}
	p.mu.Lock()
	if p.late && result.Err == ErrGuardian {
		result.Err = nil // the guardian was too slow, and was killed in endAll
	}
	if p.late && result.Signal == syscall.SIGKILL {
		result.Ended = true // in endAll; a guardian that can still report does not know of that
	}
	p.over = true
	p.backstop.Stop()
	p.mu.Unlock()
	p.line.file.Close()
	var status syscall.WaitStatus
	for { // wait for the guardian itself
		if _, err := syscall.Wait4(p.guardian, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	p.events <- Event{Result: result}
}

// endAll ends the command in the place of the guardian, and the guardian, too.
func (p *Process) endAll() (left []int) {
	p.mu.Lock()
	t := tree{root: os.Getpid(), group: p.group, spare: p.guardian}
	p.mu.Unlock()
	t.session, _ = unix.Getsid(0)
	left = t.kill(patience)
	_ = syscall.Kill(p.guardian, syscall.SIGKILL)
	return left
}

// untilBackstop is the time after which the guardian should have killed the command. It
// needs mu.
func (p *Process) untilBackstop() time.Duration {
	return time.Duration(p.at.add(-p.times.Margin/2) - now())
}

// stepIn kills the command if the guardian has not, because it was stopped or gets no
// time.
func (p *Process) stepIn() {
	p.mu.Lock()
	over, left := p.over, p.untilBackstop()
	if !over && left > 0 {
		p.backstop.Reset(left)
	} else if !over {
		p.late = true
	}
	p.mu.Unlock()
	if !over && left <= 0 {
		p.endAll() // the line breaks, and listen finds out
	}
}

// Extend tells until when the lease lasts. It must be called often, even with a deadline that
// is known already, since the time for which the machine was suspended between two calls is
// taken for lost.
func (p *Process) Extend(deadline time.Time) {
	p.mu.Lock()
	at := p.clock.instant(deadline)
	later := deadline.After(p.deadline) && at > p.at
	if later {
		p.deadline, p.at = deadline, at // which stepIn finds
	}
	p.mu.Unlock()
	if later {
		_ = p.line.Encode(order{Deadline: at}) // of two that overtake each other the later deadline counts
	}
}

// Signal sends a signal to the command's process group.
func (p *Process) Signal(sig syscall.Signal) {
	_ = p.line.Encode(order{Signal: sig})
}

// End asks the command to end, and kills it when Grace has passed, or at the end of the
// lease.
func (p *Process) End() {
	_ = p.line.Encode(order{End: true})
}
