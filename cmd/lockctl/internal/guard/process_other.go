//go:build !linux

package guard

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// Guarded tells whether commands have a guardian on this system.
const Guarded = false

// Main does nothing where there are no guardians.
func Main() {}

// A Process is a command, and what is to be done about it in time.
type Process struct {
	events chan Event
	cmd    *exec.Cmd
	times  Times

	mu       sync.Mutex
	deadline time.Time
	asked    time.Time // when it was asked to end, zero if it was not
	over     bool
	alarm    *time.Timer
}

// A Moment is taken before a lease is asked for.
type Moment struct{}

// Now returns a Moment.
func Now() Moment { return Moment{} }

// Suspended tells whether the machine was suspended since m was taken, which is not
// known here.
func (Moment) Suspended() bool { return false }

// Start runs a command under a lease that lasts until deadline. Its events have to be
// received.
func Start(c Command, t Times, _ Moment, deadline time.Time) (*Process, error) {
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	lead(cmd)
	p := &Process{events: make(chan Event), cmd: cmd, times: t, deadline: deadline}
	if err := cmd.Start(); err != nil {
		go func() {
			p.events <- Event{Result: &Result{Err: &StartError{err}}}
			close(p.events)
		}()
		return p, nil
	}
	p.alarm = time.AfterFunc(time.Until(p.next()), p.ring)
	go p.wait()
	return p, nil
}

// Events returns what happens to the command. It is closed after the Result.
func (p *Process) Events() <-chan Event { return p.events }

func (p *Process) wait() {
	defer close(p.events)
	p.events <- Event{Started: p.cmd.Process.Pid}
	err := p.cmd.Wait()
	p.mu.Lock()
	p.over = true
	p.alarm.Stop()
	r := &Result{Ended: !p.asked.IsZero()}
	p.mu.Unlock()
	_ = send(p.cmd.Process, syscall.SIGKILL) // what it has left behind
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.Err = err
	}
	r.Code, r.Signal = status(p.cmd.ProcessState)
	p.events <- Event{Result: r}
}

// next is when there is something to do. It needs mu.
func (p *Process) next() time.Time {
	kill := p.deadline.Add(-p.times.Margin)
	if p.asked.IsZero() {
		return kill.Add(-p.times.Grace)
	}
	if after := p.asked.Add(p.times.Grace); after.Before(kill) {
		return after
	}
	return kill
}

func (p *Process) ring() {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch left := time.Until(p.next()); {
	case p.over:
	case left > 0:
		p.alarm.Reset(left)
	case p.asked.IsZero():
		p.ask()
	default:
		_ = send(p.cmd.Process, syscall.SIGKILL)
	}
}

// ask asks the command to end. It needs mu.
func (p *Process) ask() {
	p.asked = time.Now()
	_ = send(p.cmd.Process, syscall.SIGTERM)
	p.alarm.Reset(time.Until(p.next()))
}

// Extend tells until when the lease lasts.
func (p *Process) Extend(deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if deadline.After(p.deadline) && !p.over && p.alarm != nil {
		p.deadline = deadline
		p.alarm.Reset(time.Until(p.next()))
	}
}

// Signal sends a signal to the command.
func (p *Process) Signal(sig syscall.Signal) { _ = send(p.cmd.Process, sig) }

// End asks the command to end, and kills it when Grace has passed, or at the end of the
// lease.
func (p *Process) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && p.alarm != nil && p.asked.IsZero() {
		p.ask()
	}
}
