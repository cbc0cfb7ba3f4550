package guard

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

// A lone command has no guardian: it is ended in time as long as this process is there and
// runs. It is what other systems than Linux have.
type lone struct {
	events chan Event
	cmd    *exec.Cmd
	times  Times

	mu       sync.Mutex
	deadline time.Time
	asked    time.Time // when it was asked to end, zero if it was not
	over     bool
	alarm    *time.Timer
}

// startLone is [Start] where there is no guardian.
func startLone(c Command, t Times, deadline time.Time) (*lone, error) {
	if time.Until(deadline) <= t.Margin {
		return nil, &StartError{ErrTooLate}
	}
	cmd := &exec.Cmd{Path: c.Path, Args: c.Args, Env: c.Env, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	lead(cmd)
	p := &lone{events: make(chan Event), cmd: cmd, times: t, deadline: deadline}
	if err := cmd.Start(); err != nil {
		return nil, &StartError{err}
	}
	p.mu.Lock()
	p.alarm = time.AfterFunc(time.Until(p.next()), p.ring)
	p.mu.Unlock()
	go p.wait()
	return p, nil
}

// Events returns what happens to the command. It is closed after the Result.
func (p *lone) Events() <-chan Event { return p.events }

func (p *lone) wait() {
	defer close(p.events)
	p.events <- Event{Started: p.cmd.Process.Pid}
	code, sig, err := wait(p.cmd, func(by syscall.Signal) { p.events <- Event{Stopped: by} })
	p.mu.Lock()
	p.over = true
	p.alarm.Stop()
	r := &Result{Code: code, Signal: sig, Ended: !p.asked.IsZero(), Err: err}
	p.mu.Unlock()
	_ = send(p.cmd.Process, syscall.SIGKILL) // what it has left behind
	p.events <- Event{Result: r}
}

// next is when there is something to do. It needs mu.
func (p *lone) next() time.Time {
	kill := p.deadline.Add(-p.times.Margin)
	if p.asked.IsZero() {
		return kill.Add(-p.times.Grace)
	}
	if after := p.asked.Add(p.times.Grace); after.Before(kill) {
		return after
	}
	return kill
}

func (p *lone) ring() {
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
func (p *lone) ask() {
	p.asked = time.Now()
	ask(p.cmd.Process)
	p.alarm.Reset(time.Until(p.next()))
}

// Extend tells until when the lease lasts.
func (p *lone) Extend(deadline time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if deadline.After(p.deadline) {
		p.deadline = deadline // which ring finds
	}
}

// Signal sends a signal to the command.
func (p *lone) Signal(sig syscall.Signal) { _ = send(p.cmd.Process, sig) }

// End asks the command to end, and kills it when Grace has passed, or at the end of the
// lease.
func (p *lone) End() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.over && p.asked.IsZero() {
		p.ask()
	}
}
