package conformance

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A stall is a peer that stops reading, when every buffer on the way to it is full: a write
// waits until its deadline or the end of its connection, and nothing of it arrives.
type stall struct {
	edit func(*driver.Config) // makes a Config dial connections that can stall
	key  string               // of the commands at which the stall can begin
	due  atomic.Bool          // it begins at the next of them
	on   atomic.Bool
}

// begin has the peer read nothing from the next command on. The peer does read what comes before that,
// such as the handshake where a call makes a connection of its own: that call has not written its command yet.
func (s *stall) begin() { s.due.Store(true) }

func (s *stall) end() {
	s.due.Store(false)
	s.on.Store(false)
}

func (s *stall) stops(p []byte) bool {
	if bytes.Contains(p, []byte(s.key)) && s.due.CompareAndSwap(true, false) {
		s.on.Store(true)
	}
	return s.on.Load()
}

// stall makes a stall. A socket has buffers that take what a case writes, so that stalls are
// for bubbles only.
func (k *kit) stall() *stall {
	if k.realTime() {
		k.Skipf("the buffers of a socket take what is written here; a connection in memory has none")
	}
	s := &stall{key: k.prefix}
	s.edit = dialing(func(c net.Conn) net.Conn {
		unread, _ := net.Pipe()
		return &stallConn{Conn: c, unread: unread, stall: s}
	})
	return s
}

// dialing makes a Config dial connections that are wrapped by wrap.
func dialing(wrap func(net.Conn) net.Conn) func(*driver.Config) {
	return func(cfg *driver.Config) {
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return wrap(c), nil
		}
	}
}

// A stallConn writes to a pipe from which nobody reads while the stall is on.
type stallConn struct {
	net.Conn
	unread net.Conn
	stall  *stall
}

func (c *stallConn) Write(p []byte) (int, error) {
	if c.stall.stops(p) {
		return c.unread.Write(p)
	}
	return c.Conn.Write(p)
}

func (c *stallConn) SetDeadline(t time.Time) error {
	_ = c.unread.SetDeadline(t)
	return c.Conn.SetDeadline(t)
}

func (c *stallConn) SetWriteDeadline(t time.Time) error {
	_ = c.unread.SetWriteDeadline(t)
	return c.Conn.SetWriteDeadline(t)
}

func (c *stallConn) Close() error {
	_ = c.unread.Close()
	return c.Conn.Close()
}

// A failingConn, while it is on, once passes on the write of a command with the key and says that nothing
// was written. That can happen through a tunnel, or where a client writes for several callers at once.
type failingConn struct {
	net.Conn
	key string
	on  *atomic.Bool
}

func (c *failingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil && bytes.Contains(p, []byte(c.key)) && c.on.CompareAndSwap(true, false) {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	return n, err
}
