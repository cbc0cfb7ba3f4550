package wire

import (
	"fmt"
	"slices"
)

// A Request is what became of one request that a client wrote.
type Request struct {
	// Conn numbers the connections of a Wire from 1 in the order of dialing.
	Conn int
	// Args is the request.
	Args []string
	// Forwarded is how often the wire has written it to the server, or begun to.
	Forwarded int
	// Replied tells that the server's reply has come to the wire.
	Replied bool
	// Passed tells that the wire has written a reply to the client, or begun to.
	Passed bool
}

// String returns the request's name and fate.
func (r Request) String() string {
	return fmt.Sprintf("conn %d: %s[%d args] forwarded %d replied %t passed %t",
		r.Conn, r.Args[0], len(r.Args)-1, r.Forwarded, r.Replied, r.Passed)
}

// Forget makes the wire note no requests, neither those that have passed nor those
// that follow: a long run would not have the memory for them.
func (w *Wire) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.forget, w.requests = true, nil
}

// Requests returns the requests that m selects, in the order in which clients
// wrote them. Handshakes such as HELLO or AUTH are among them.
func (w *Wire) Requests(m Match) []Request {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []Request
	for _, r := range w.requests {
		if m.selects(r.Args) {
			c := *r
			c.Args = slices.Clone(r.Args)
			list = append(list, c)
		}
	}
	return list
}

// Count returns how many requests that m selects clients wrote.
func (w *Wire) Count(m Match) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, r := range w.requests {
		if m.selects(r.Args) {
			n++
		}
	}
	return n
}

// Dials returns how many connections were asked for, refused ones included.
func (w *Wire) Dials() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dials
}

// Open returns how many connections the client has open: it has neither closed
// them nor had them cut.
func (w *Wire) Open() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for c := range w.conns {
		if !c.clientGone {
			n++
		}
	}
	return n
}

// Broken returns what the wire could not read, as text for a failure message:
// a client or a server that does not speak the protocol. It is nil if all is well.
func (w *Wire) Broken() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.broken)
}

// IsOpen reports whether the connection with this number is open. See [Request].
func (w *Wire) IsOpen(conn int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		if c.id == conn {
			return true
		}
	}
	return false
}
