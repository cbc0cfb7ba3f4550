package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
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
func play(ctx context.Context, j job, l *ledger) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p := &director{ledger: l, ttl: j.TTL, cmds: map[string]*exec.Cmd{}, done: map[string]bool{}}
	l.pause = p.pause
	server := &http.Server{Handler: l.handler()}
	go server.Serve(listener)
	defer server.Close()

	program, err := os.Executable()
	if err != nil {
		return err
	}
	j.Ledger = listener.Addr().String()
	results := make(chan error, workers)
	p.mu.Lock() // no accident before all have started
	for i := range workers {
		j.Worker = fmt.Sprintf("worker %d", i+1)
		description, err := json.Marshal(j)
		if err != nil {
			p.mu.Unlock()
			return err
		}
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), jobVariable+"="+string(description))
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			p.mu.Unlock()
			return err
		}
		p.cmds[j.Worker] = cmd
		go func(name string) { results <- p.wait(name, cmd) }(j.Worker)
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
	l.say("%s is killed while it holds the lock; the others get it when its lease ends", victim)
	l.mu.Unlock()
	cmd.Process.Kill()
}

// stop pauses the worker until its lease has run out and another has the lock.
func (p *director) stop(cmd *exec.Cmd) {
	l := p.ledger
	l.mu.Lock()
	changed := l.changed
	if err := suspend(cmd.Process); err != nil {
		l.say("%s cannot be paused on this system (%v)", sleeper, err)
		l.mu.Unlock()
		return
	}
	l.idle[sleeper] = true
	l.say("%s is paused while it holds the lock, for longer than its lease", sleeper)
	l.mu.Unlock()
	select {
	case <-changed:
	case <-time.After(10 * p.ttl):
	}
	l.mu.Lock()
	l.say("%s goes on; it knows nothing of the pause", sleeper)
	l.mu.Unlock()
	resume(cmd.Process)
}
