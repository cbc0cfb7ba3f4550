//go:build unix

package servertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Server is one server process. Its methods may be called from any goroutine.
// Whatever goes wrong in a method that returns no error fails the test.
type Server struct {
	// Addr is the host and port that clients connect to.
	Addr string
	// Socket is the path of the unix socket that the server listens on too.
	Socket string

	tb       testing.TB
	settings *settings
	kind     kind
	binary   string
	version  version
	dir      string
	port     int
	busPort  int // of a Cluster's node
	control  control

	mu      sync.Mutex
	process *process // nil while it is down
}

// kind is what a server is for.
type kind int

const (
	kindData kind = iota
	kindCluster
	kindSentinel
)

var errPortTaken = errors.New("servertest: the port is taken")

// Single starts one server. It is stopped when the test ends.
func Single(tb testing.TB, opts ...Option) *Server {
	tb.Helper()
	return Servers(tb, 1, opts...)[0]
}

// Servers starts n servers that know nothing of each other.
func Servers(tb testing.TB, n int, opts ...Option) []*Server {
	tb.Helper()
	return startAll(tb, n, kindData, newSettings(opts))
}

// startAll starts n servers at the same time.
func startAll(tb testing.TB, n int, k kind, set *settings) []*Server {
	tb.Helper()
	servers := make([]*Server, n)
	for i := range servers {
		servers[i] = newServer(tb, k, set)
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.start() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		if set.certs != nil && strings.Contains(err.Error(), "tls-") {
			unavailable(tb, "the server was built without TLS")
		}
		tb.Fatal(err)
	}
	return servers
}

// newServer prepares a server and its end.
func newServer(tb testing.TB, k kind, set *settings) *Server {
	tb.Helper()
	binary := Require(tb)
	v, err := programVersion(binary)
	if err != nil {
		tb.Fatal(err)
	}
	// Not tb.TempDir: a socket's path must be shorter than many a test's name.
	dir, err := os.MkdirTemp("", "servertest")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		Socket:   filepath.Join(dir, "s"),
		tb:       tb,
		settings: set,
		kind:     k,
		binary:   binary,
		version:  v,
		dir:      dir,
	}
	s.control.socket, s.control.auth = s.Socket, []string{"AUTH", ControlUser, "any"}
	if k == kindSentinel && v.before(version{6, 2}) { // such a Sentinel knows no users
		s.control.auth = set.sentinelAuth()
	}
	tb.Cleanup(func() {
		s.control.close()
		s.stop()
		if tb.Failed() {
			tb.Logf("the last that %s on %s logged:\n%s", filepath.Base(binary), s.Addr, s.logTail())
		}
		if err := os.RemoveAll(dir); err != nil {
			tb.Error(err)
		}
	})
	return s
}

// start chooses ports and starts the server on them.
func (s *Server) start() error {
	for {
		var err error
		if s.port, err = freePort(); err != nil {
			return err
		}
		if s.kind == kindCluster {
			if s.busPort, err = freePort(); err != nil {
				return err
			}
		}
		s.Addr = address(s.port)
		if err := s.configure(); err != nil {
			return err
		}
		if err := s.run(nil); !errors.Is(err, errPortTaken) {
			return err
		}
	}
}

// run starts the process on the chosen ports, with some more configuration, and waits
// until it answers.
func (s *Server) run(more []directive) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	log, err := os.Create(s.logFile())
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(s.binary, s.arguments(more)...)
	cmd.Dir = s.dir
	cmd.Env = append(os.Environ(), s.settings.env...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := startProcess(cmd)
	if err != nil {
		return fmt.Errorf("servertest: start %s: %w", s.binary, err)
	}
	if err := s.awaitReady(p); err != nil {
		p.kill()
		return err
	}
	s.process = p
	return nil
}

// awaitReady waits until the process answers on its socket, which it opens after
// its ports.
func (s *Server) awaitReady(p *process) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ctx, died := context.WithCancelCause(ctx)
	defer died(nil)
	err := Await(ctx, func() error {
		select {
		case <-p.exited:
			died(errors.New("it exited"))
			return errors.New("no process")
		default:
		}
		reply, err := s.control.do(time.Second, "PING")
		if refusal, ok := reply.(ReplyError); ok {
			return refusal // it is still loading
		}
		return err
	})
	if err == nil {
		return nil
	}
	tail := s.logTail()
	if bytes.Contains(tail, []byte("Address already in use")) {
		return fmt.Errorf("%w: %s", errPortTaken, s.Addr)
	}
	return fmt.Errorf("servertest: %s on %s does not answer: %w\n%s", s.binary, s.Addr, err, tail)
}

// stop kills the process if there is one.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		s.process.kill()
		s.process = nil
	}
}

// Kill ends the server as a crash does: by SIGKILL, without any goodbye. It
// returns when the process is gone.
func (s *Server) Kill() { s.stop() }

// Restart starts the server again on the same port, after a [Server.Kill] if it
// is running. The data is lost unless [Persist] was given. It returns when the
// server answers.
func (s *Server) Restart() {
	s.tb.Helper()
	s.RestartWith()
}

// RestartWith is [Server.Restart] with options on top of those that the server has,
// for this once. Of the options, [Config] and [Persist] are heeded.
func (s *Server) RestartWith(opts ...Option) {
	s.tb.Helper()
	s.stop()
	more := newSettings(opts).config
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	var fatal error
	err := Await(ctx, func() error {
		err := s.run(more)
		if err != nil && !errors.Is(err, errPortTaken) {
			fatal = err
			return nil
		}
		return err
	})
	if err := errors.Join(err, fatal); err != nil {
		s.tb.Errorf("servertest: restart: %v", err)
	}
}

// Pause freezes the server: its connections stay open and nothing is answered,
// nor does anything else happen, until [Server.Resume]. It returns when the
// server has stopped.
func (s *Server) Pause() {
	s.tb.Helper()
	if err := s.pause(); err != nil {
		s.tb.Errorf("servertest: pause %s: %v", s.Addr, err)
	}
}

func (s *Server) pause() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return errors.New("it is not running")
	}
	if err := s.process.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	return Await(ctx, func() error {
		is, err := stopped(s.process.pid())
		if err == nil && !is {
			err = errors.New("it still runs")
		}
		return err
	})
}

// Resume ends a [Server.Pause]. It does nothing to a server that is not paused
// or not running.
func (s *Server) Resume() {
	s.tb.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	if err := s.process.signal(syscall.SIGCONT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		s.tb.Errorf("servertest: resume %s: %v", s.Addr, err)
	}
}

// PID is the id of the server's process, 0 while it is down.
func (s *Server) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return 0
	}
	return s.process.pid()
}

// Port is the port of Addr.
func (s *Server) Port() string { return strconv.Itoa(s.port) }

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// logTail returns the end of the server's log.
func (s *Server) logTail() []byte {
	log, err := os.ReadFile(s.logFile())
	if err != nil {
		return []byte(err.Error())
	}
	return log[max(0, len(log)-2000):]
}
