package worker

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/golocker/golocker/internal/robustness/history"
)

// A Process is a worker that runs.
type Process struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr string // the file
	ended  chan struct{}
	err    error // how it ended, once it has
}

// Start starts a worker. There is its history from then on, also if it is killed before it has
// begun; what it prints goes to the file beside that.
func Start(cfg Config) (*Process, error) {
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	log, err := history.Create(cfg.History)
	if err != nil {
		return nil, err
	}
	if err := log.Close(); err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(os.Args[0]), stderr: cfg.History + ".stderr", ended: make(chan struct{})}
	out, err := os.Create(p.stderr)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Env = append(os.Environ(), variable+"="+string(text))
	p.cmd.Stdout, p.cmd.Stderr = out, out
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	return p, nil
}

// Ended is closed when the process has ended, however it did.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Kill ends the process by SIGKILL, also a paused one, and returns when it has ended.
func (p *Process) Kill() error {
	err := p.cmd.Process.Kill()
	<-p.ended
	if errors.Is(err, os.ErrProcessDone) {
		return p.failure()
	}
	if said := p.said(); bytes.Contains(said, []byte("DATA RACE")) {
		return fmt.Errorf("worker: %s", said)
	}
	return err
}

// Pause stops the process and returns when it has stopped.
func (p *Process) Pause() error {
	if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for {
		err := unix.Waitid(unix.P_PID, p.cmd.Process.Pid, nil, unix.WSTOPPED, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.cmd.Process.Signal(syscall.SIGCONT) }

// Stop tells the process to give up what it holds and to end.
func (p *Process) Stop() { _ = p.stdin.Close() }

// Join returns when a process that was told to stop has ended. One that has not done so
// within the time hangs: then Join makes it say where it does, and says so.
func (p *Process) Join(within time.Duration) error {
	select {
	case <-p.ended:
		return p.failure()
	case <-time.After(within):
	}
	_ = p.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(within):
		_ = p.Kill()
	}
	return fmt.Errorf("worker: it has not ended %v after it was told to:\n%s", within, p.said())
}

// failure tells why a process that has ended by itself did.
func (p *Process) failure() error {
	if p.err == nil {
		return nil
	}
	return fmt.Errorf("worker: %w:\n%s", p.err, p.said())
}

// said returns the beginning of what the process has printed.
func (p *Process) said() []byte {
	text, err := os.ReadFile(p.stderr)
	if err != nil {
		return []byte(err.Error())
	}
	return text[:min(len(text), 8000)]
}
