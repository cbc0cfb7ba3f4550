package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"github.com/golocker/golocker/examples/internal/demo"
)

const (
	workers = 5
	victim  = "worker 2" // is killed while it holds the lock
	sleeper = "worker 4" // is paused past its lease
)

// A director runs the workers and causes the accidents.
type director struct {
	ledger *ledger
	ttl    time.Duration

	mu   sync.Mutex
	cmds map[string]*exec.Cmd
	done map[string]bool // accidents that have happened
}

// play runs one process for each worker until all have ended.
func play(ctx context.Context, s *demo.Stage, l *ledger) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := &director{ledger: l, ttl: s.TTL, cmds: map[string]*exec.Cmd{}, done: map[string]bool{}}
	l.pause = p.pause
	server := &http.Server{Handler: l.handler()}
	go server.Serve(listener)
	defer server.Close()

	results := make(chan error, workers)
	p.mu.Lock() // no accident before all have started
	for i := range workers {
		name := fmt.Sprintf("worker %d", i+1)
		cmd, err := s.Start(ctx, "worker", name, listener.Addr().String())
		if err != nil {
			p.mu.Unlock()
			return err
		}
		p.cmds[name] = cmd
		go func() { results <- p.wait(name, cmd) }()
	}
	p.mu.Unlock()
	for range workers {
		err = errors.Join(err, <-results)
	}
	return err
}

// wait reports how a worker ended; being killed is the victim's part.
func (p *director) wait(name string, cmd *exec.Cmd) error {
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err == nil || name == victim && p.done[victim] {
		return nil
	}
	return fmt.Errorf("%s: %w", name, err)
}

// first tells whether this is the first time that something happens to the worker.
func (p *director) first(worker string) (*exec.Cmd, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := !p.done[worker]
	p.done[worker] = true
	return p.cmds[worker], first
}

// pause is called while worker holds the lock, between its reading and its writing.
func (p *director) pause(worker string) {
	switch worker {
	case victim:
		if cmd, first := p.first(worker); first {
			p.kill(cmd)
		}
	case sleeper:
		if cmd, first := p.first(worker); first {
			p.stop(cmd)
		}
	}
}

func (p *director) kill(cmd *exec.Cmd) {
	l := p.ledger
	l.mu.Lock()
	l.idle[victim] = true
	l.killed++
	l.stage.Say("%s is killed while it holds the lock; the others get it when its lease ends", victim)
	l.mu.Unlock()
	cmd.Process.Kill()
}

// stop pauses the worker until its lease has run out and another has the lock.
func (p *director) stop(cmd *exec.Cmd) {
	l := p.ledger
	l.mu.Lock()
	changed := l.changed
	if err := suspend(cmd.Process); err != nil {
		l.stage.Say("%s cannot be paused on this system (%v)", sleeper, err)
		l.mu.Unlock()
		return
	}
	l.idle[sleeper] = true
	l.stage.Say("%s is paused while it holds the lock, for longer than its lease", sleeper)
	l.mu.Unlock()
	select {
	case <-changed:
	case <-time.After(10 * p.ttl):
	}
	l.mu.Lock()
	l.stage.Say("%s goes on; it knows nothing of the pause", sleeper)
	l.mu.Unlock()
	resume(cmd.Process)
}
