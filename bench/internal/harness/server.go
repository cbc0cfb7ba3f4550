package harness

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/internal/servertest"
)

// A Server is one redis-server that this process has started, without persistence.
type Server struct {
	Addr string

	port    int
	dir     string
	cmd     *exec.Cmd // nil while it is down
	control *Conn     // for INFO and the like
}

var (
	serversMu sync.Mutex
	servers   = map[*Server]bool{}
)

// StartServer starts a server on a port of 127.0.0.1. The program is the one that
// the tests of this repository use too, see package servertest.
func StartServer(port int) (*Server, error) {
	dir, err := os.MkdirTemp("", "golocker-bench-server-")
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), port: port, dir: dir}
	if err := s.start(); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	serversMu.Lock()
	defer serversMu.Unlock()
	servers[s] = true
	return s, nil
}

// startTimeout is how long a server may take to answer.
const startTimeout = 5 * time.Second

func (s *Server) start() error {
	if c, err := Dial(s.Addr); err == nil {
		c.Close()
		return fmt.Errorf("%s is already in use (-port chooses others)", s.Addr)
	}
	program, ok := servertest.Binary()
	if !ok {
		return errors.New("there is no redis-server or valkey-server on PATH; REDIS_SERVER can name one")
	}
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program,
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1",
		"--save", "", "--appendonly", "no", "--dir", s.dir,
		// Contestants that open a connection for each waiter need these.
		"--maxclients", "15000", "--tcp-backlog", "4096")
	cmd.Stdout, cmd.Stderr = log, log
	DieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	if s.control, err = awaitServer(s.Addr, cmd.Process.Pid); err != nil {
		cmd.Process.Kill()
		cmd.Wait()
		return fmt.Errorf("%s: %w", program, err)
	}
	s.cmd = cmd
	return nil
}

// awaitServer connects to the server that runs as pid when it answers. Another one
// may have taken the port in the meantime.
func awaitServer(addr string, pid int) (*Conn, error) {
	for deadline := time.Now().Add(startTimeout); ; time.Sleep(10 * time.Millisecond) {
		c, err := Dial(addr)
		if err == nil {
			var in Info
			if in, err = ReadInfo(c); err == nil && in.PID == pid {
				return c, nil
			}
			c.Close()
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("process %d does not answer on %s", pid, addr), err)
		}
	}
}

// Pause hangs the server as a stuck host does: connections stay open, the kernel
// accepts new ones, nothing answers.
func (s *Server) Pause() error { return suspend(s.cmd.Process) }

// Resume ends a Pause.
func (s *Server) Resume() error { return proceed(s.cmd.Process) }

// Kill ends the server.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.control.Close()
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

// Restart brings up an empty server on the same port.
func (s *Server) Restart() error {
	s.Kill()
	return s.start()
}

// StopAll ends every server that this process has started.
func StopAll() {
	serversMu.Lock()
	defer serversMu.Unlock()
	for s := range servers {
		s.Kill()
		os.RemoveAll(s.dir)
	}
	clear(servers)
}

// Flush empties the server. Scripts stay: what is measured is a steady state.
func (s *Server) Flush() error {
	_, err := s.control.Do("FLUSHALL")
	return err
}

// ProcessCPU is what the server has used, in seconds, to a hundredth. Unlike INFO
// it answers for a server that hangs.
func (s *Server) ProcessCPU() float64 {
	if s.cmd == nil {
		return 0
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	// After the program's name, which is in parentheses and may hold blanks, user
	// and system time are the 12th and 13th columns.
	columns := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	if len(columns) < 13 {
		return 0
	}
	user, _ := strconv.ParseFloat(columns[11], 64)
	system, _ := strconv.ParseFloat(columns[12], 64)
	return (user + system) / ticks
}

// Left counts the keys that are there, without those that begin with one of the
// prefixes and run out by themselves.
func (s *Server) Left(passing ...string) (int, error) {
	reply, err := s.control.Do("KEYS", "*")
	if err != nil {
		return 0, err
	}
	keys, _ := reply.([]any)
	left := 0
	for _, key := range keys {
		name, _ := key.(string)
		if !slices.ContainsFunc(passing, func(p string) bool { return strings.HasPrefix(name, p) }) {
			left++
			continue
		}
		reply, err := s.control.Do("PTTL", name)
		if err != nil {
			return 0, err
		}
		if ttl, _ := reply.(int64); ttl == -1 {
			left++
		}
	}
	return left, nil
}
