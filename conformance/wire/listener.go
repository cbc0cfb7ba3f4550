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
		_ = l.ln.Close()
		l.ln = nil
	case !pause && l.ln == nil:
		if err := l.open(l.addr); err != nil {
			l.wire.mu.Lock()
			l.wire.broken = append(l.wire.broken, "cannot listen again: "+err.Error())
			l.wire.mu.Unlock()
		}
	}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
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
