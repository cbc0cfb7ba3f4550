// Package resource is what the workers' locks guard: a service that all processes of a
// round write to, and that refuses a fencing token smaller than one it has seen for
// the same lock. It has its own mind of who came later: no worker is asked.
package resource

import (
	"net"
	"net/rpc"
	"sync"
)

// service is the resource's name among the methods of net/rpc.
const service = "Resource"

// A Server is the resource. It ends with Close.
type Server struct {
	listener net.Listener
	serving  sync.WaitGroup

	mu     sync.Mutex
	tokens map[string]uint64 // the largest seen, by the lock's name
	conns  map[net.Conn]struct{}
	closed bool
}

// Listen starts the resource on a unix socket of that path.
func Listen(path string) (*Server, error) {
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, err
	}
	s := &Server{listener: l, tokens: map[string]uint64{}, conns: map[net.Conn]struct{}{}}
	methods := rpc.NewServer()
	if err := methods.RegisterName(service, &handler{s}); err != nil {
		_ = l.Close()
		return nil, err
	}
	s.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if !s.admit(conn) {
				return
			}
			s.serving.Go(func() {
				methods.ServeConn(conn)
				s.forget(conn)
			})
		}
	})
	return s, nil
}

// Close ends the resource, whoever is connected.
func (s *Server) Close() error {
	err := s.listener.Close()
	s.mu.Lock()
	s.closed = true
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	s.serving.Wait()
	return err
}

func (s *Server) admit(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Server) forget(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

// accept takes a write if its token is not smaller than one before.
func (s *Server) accept(w Write) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Token < s.tokens[w.Name] {
		return false
	}
	s.tokens[w.Name] = w.Token
	return true
}

// A Write is what is asked of the resource.
type Write struct {
	Name  string // of the lock
	Token uint64
}

// handler has the methods that net/rpc finds, and nothing else.
type handler struct{ server *Server }

// Write is called by the clients.
func (h *handler) Write(w Write, accepted *bool) error {
	*accepted = h.server.accept(w)
	return nil
}

// A Client writes to the resource, from any number of goroutines.
type Client struct{ rpc *rpc.Client }

// Dial connects to the resource at path.
func Dial(path string) (*Client, error) {
	c, err := rpc.Dial("unix", path)
	if err != nil {
		return nil, err
	}
	return &Client{c}, nil
}

// Write writes with a token, and returns whether the resource took it.
func (c *Client) Write(w Write) (accepted bool, err error) {
	err = c.rpc.Call(service+".Write", w, &accepted)
	return accepted, err
}

// Close closes the connection.
func (c *Client) Close() error { return c.rpc.Close() }
