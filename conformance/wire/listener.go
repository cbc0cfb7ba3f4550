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
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	w.listener = &listener{wire: w, addr: ln.Addr().String()}
	w.listener.open(ln)
	return w.listener.addr, nil
}

// A listener can close its port and open the same one again, so that a refused
// dial is refused by the kernel.
type listener struct {
	wire *Wire
	addr string

	mu     sync.Mutex
	ln     net.Listener // nil while paused
	port   *reserved    // nil unless paused
	closed bool
}

func (l *listener) open(ln net.Listener) {
	l.ln = ln
	l.wire.running.Go(func() { l.accept(ln) })
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
		// Otherwise clients would find whoever is given the port next: another server.
		r, err := reserve(port)
		if err != nil {
			l.broken("cannot keep the port", err)
			return
		}
		l.port = &r
	case !pause && l.port != nil:
		ln, err := l.port.listen()
		l.port = nil
		if err != nil {
			l.broken("cannot listen again", err)
			return
		}
		l.open(ln)
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
	if l.port != nil {
		l.port.release()
		l.port = nil
	}
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
