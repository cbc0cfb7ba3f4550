package conformance

import (
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
	on   atomic.Bool
}

// stall makes one. A socket has buffers that take what a case writes, so that it is for
// bubbles only.
func (k *kit) stall() *stall {
	if k.realTime() {
		k.Skipf("the buffers of a socket take what is written here; a connection in memory has none")
	}
	s := &stall{}
	s.edit = dialing(func(c net.Conn) net.Conn {
		unread, _ := net.Pipe()
		return &stallConn{Conn: c, unread: unread, on: &s.on}
	})
	return s
}

// dialing makes a Config dial connections with something around them.
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
	on     *atomic.Bool
}

func (c *stallConn) Write(p []byte) (int, error) {
	if c.on.Load() {
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

// A failingConn passes on what is written and says that nothing was, once while it is on: as may
// be through a tunnel, or where a client writes for several callers at once.
type failingConn struct {
	net.Conn
	on *atomic.Bool
}

func (c *failingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if err == nil && c.on.CompareAndSwap(true, false) {
		return 0, &net.OpError{Op: "write", Net: "tcp", Err: syscall.EPIPE}
	}
	return n, err
}
