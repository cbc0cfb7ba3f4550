package wire

import (
	"net"
	"sync"
)

// Listen opens a TCP listener on the loopback interface and returns its address
// as "127.0.0.1:port". A second call returns the same address.
func (w *Wire) Listen() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return "", ErrClosed
	}
	if w.listener != nil {
		return w.listener.addr, nil
	}
	l := &listener{wire: w}
	if err := l.open("127.0.0.1:0"); err != nil {
		return "", err
	}
	w.listener = l
	return l.addr, nil
}

// A listener can close its port and open the same one again, so that a refused
// dial is refused by the kernel.
type listener struct {
	wire *Wire
	addr string

	mu     sync.Mutex
	ln     net.Listener // nil while paused
	paused func()       // gives the port back that is kept meanwhile
	closed bool
}

func (l *listener) open(addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	l.ln, l.addr = ln, ln.Addr().String()
	l.wire.running.Go(func() { l.accept(ln) })
	return nil
}

func (l *listener) pause(pause bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
	case pause && l.ln != nil:
		port := l.ln.Addr().(*net.TCPAddr).Port
		_ = l.ln.Close()
		l.ln = nil
		// Else clients would find whoever is given it next: another server.
		release, err := reserve(port)
		if err != nil {
			l.broken("cannot keep the port", err)
			return
		}
		l.paused = release
	case !pause && l.ln == nil:
		l.release()
		if err := l.open(l.addr); err != nil {
			l.broken("cannot listen again", err)
		}
	}
}

func (l *listener) release() {
	if l.paused != nil {
		l.paused()
		l.paused = nil
	}
}

func (l *listener) broken(what string, err error) {
	l.wire.mu.Lock()
	defer l.wire.mu.Unlock()
	l.wire.broken = append(l.wire.broken, what+": "+err.Error())
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.release()
	if l.ln != nil {
		_ = l.ln.Close()
		l.ln = nil
	}
}

func (l *listener) accept(ln net.Listener) {
	for {
		client, err := ln.Accept()
		if err != nil {
			return
		}
		l.wire.running.Go(func() { l.wire.serve(client) })
	}
}

// serve connects an accepted connection with the server.
func (w *Wire) serve(client net.Conn) {
	kills, err := w.admit(w.ctx)
	if err != nil {
		_ = client.Close()
		return
	}
	server, err := w.backend(w.ctx)
	if err != nil {
		_ = client.Close()
		return
	}
	_ = w.connect(client, server, kills)
}
