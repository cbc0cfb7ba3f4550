package conformance

import (
	"context"
	"net"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

// handshakeRecord is the first byte of TLS.
const handshakeRecord byte = 22

// An eavesdropper is a server that listens to the first byte of a connection and hangs up.
type eavesdropper struct {
	edit func(*driver.Config) // makes a Config lead to it

	mu    sync.Mutex
	first []byte
}

// eavesdrop starts one.
func (k *kit) eavesdrop() *eavesdropper {
	e := &eavesdropper{}
	if !k.realTime() {
		e.edit = func(c *driver.Config) {
			c.Dial = func(context.Context, string, string) (net.Conn, error) {
				client, ours := net.Pipe()
				go e.serve(ours)
				return client, nil
			}
		}
		return e
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Fatalf("%v", err)
	}
	k.cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	}()
	e.edit = func(c *driver.Config) { c.Addrs = []string{l.Addr().String()} }
	return e
}

func (e *eavesdropper) serve(c net.Conn) {
	defer c.Close()
	var first [1]byte
	if n, _ := c.Read(first[:]); n > 0 {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.first = append(e.first, first[0])
	}
}

// said returns the first byte of each connection on which there was any.
func (e *eavesdropper) said() []byte {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]byte(nil), e.first...)
}
