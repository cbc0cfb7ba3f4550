//go:build unix

package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// ControlUser is the user, and the name in CLIENT LIST, of the connection that
// [Server.Do] uses.
const ControlUser = "servertest"

// control is a connection to a server over its unix socket. It survives restarts
// of the server; each command is sent at most once.
type control struct {
	socket string
	auth   []string // the command that authenticates the connection; empty if nobody asks

	mu   sync.Mutex
	conn *net.UnixConn // nil when there is none
	r    *bufio.Reader
}

// do sends a command and returns the reply, which is a ReplyError where the
// server replied one, or the error that kept the reply from being read.
func (c *control) do(timeout time.Duration, args ...string) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	deadline := time.Now().Add(timeout)
	if c.conn != nil && !alive(c.conn) {
		c.drop()
	}
	if c.conn == nil {
		if err := c.dial(deadline); err != nil {
			return nil, err
		}
	}
	return c.roundTrip(deadline, args...)
}

func (c *control) dial(deadline time.Time) error {
	conn, err := (&net.Dialer{Deadline: deadline}).Dial("unix", c.socket)
	if err != nil {
		return err
	}
	c.conn, c.r = conn.(*net.UnixConn), bufio.NewReader(conn)
	for _, hello := range [][]string{
		c.auth,
		{"CLIENT", "SETNAME", ControlUser},
	} {
		if len(hello) == 0 {
			continue
		}
		reply, err := c.roundTrip(deadline, hello...)
		if err != nil {
			return err
		}
		if err, ok := reply.(ReplyError); ok {
			c.drop()
			return err
		}
	}
	return nil
}

// roundTrip drops the connection when it fails.
func (c *control) roundTrip(deadline time.Time, args ...string) (reply any, err error) {
	err = c.conn.SetDeadline(deadline)
	if err == nil {
		_, err = c.conn.Write(appendCommand(nil, args))
	}
	if err == nil {
		reply, err = readReply(c.r)
	}
	if err != nil {
		c.drop()
		return nil, err
	}
	return reply, nil
}

func (c *control) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *control) drop() {
	if c.conn != nil {
		c.conn.Close()
		c.conn, c.r = nil, nil
	}
}

// alive reports whether the server has neither closed the idle connection nor
// sent anything on it.
func alive(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	alive := false
	var one [1]byte
	err = raw.Read(func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), one[:])
		alive = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && alive
}

// Do sends a command to the server and returns its reply: nil, int64, string or
// []any of these. An error that the server replied is a [ReplyError], also inside
// an array. A command is sent once; without an answer within 10 seconds it fails.
//
// All calls share one connection over the unix socket, so that MULTI, SELECT and
// the like hold for the calls that follow. It is made anew after a restart, and
// its user, [ControlUser], may do everything. Do may be called from any goroutine.
func (s *Server) Do(args ...string) (any, error) {
	reply, err := s.control.do(commandTimeout, args...)
	if err == nil {
		if e, ok := reply.(ReplyError); ok {
			reply, err = nil, e
		}
	}
	if err != nil {
		name := ""
		if len(args) > 0 {
			name = args[0]
		}
		return nil, fmt.Errorf("servertest: %s on %s: %w", name, s.Addr, err)
	}
	return reply, nil
}

// Flush deletes all keys of all databases.
func (s *Server) Flush() {
	s.tb.Helper()
	if _, err := s.Do("FLUSHALL"); err != nil {
		s.tb.Error(err)
	}
}
