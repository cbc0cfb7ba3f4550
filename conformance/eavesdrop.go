package conformance

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

// handshakeRecord is the first byte of TLS.
const handshakeRecord byte = 22

// An eavesdropper is a server that listens to the first byte of a connection and hangs up, or
// says nothing for as long as it lasts.
type eavesdropper struct {
	kit   *kit
	keeps bool                 // says nothing
	edit  func(*driver.Config) // makes a Config lead to it

	mu    sync.Mutex
	first []byte
}

// encrypted makes a Config ask for TLS, which an eavesdropper does not speak.
func encrypted(c *driver.Config) {
	c.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ServerName: serverName}
}

// eavesdrop starts an eavesdropper that hangs up.
func (k *kit) eavesdrop() *eavesdropper { return k.startEavesdropper(false) }

// eavesdropInSilence starts an eavesdropper that says nothing.
func (k *kit) eavesdropInSilence() *eavesdropper { return k.startEavesdropper(true) }

func (k *kit) startEavesdropper(keeps bool) *eavesdropper {
	e := &eavesdropper{kit: k, keeps: keeps}
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
		e.hear(first[0])
	}
	if e.keeps {
		e.kit.cleanup(func() { _ = c.Close() })
		_, _ = io.Copy(io.Discard, c)
	}
}

func (e *eavesdropper) hear(first byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first = append(e.first, first)
}

// heardTLS checks that there were connections, and that each began with a handshake.
func (e *eavesdropper) heardTLS(gave error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.first) == 0 {
		e.kit.Errorf("the driver has not begun a TLS handshake with anybody; the last call gave %v", gave)
	}
	for _, first := range e.first {
		if first != handshakeRecord {
			e.kit.Errorf("the first byte on a connection with Config.TLS is %q; want that of a TLS handshake: Config.TLS is ignored, or given up", first)
		}
	}
}
