package conformance

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/golocker/golocker/conformance/internal/resp"
	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker/driver"
)

// A server is where a case's commands end: a miniredis of its own, or the real
// server. The suite has a connection to it that does not pass the wire.
type server struct {
	dial               wire.Backend
	username, password string
	memory             *miniredis.Miniredis // nil on a real server
	prefix             string
	others             []*server // the further nodes of a quorum
	moved              *atomic.Int64

	ending sync.Mutex // sees to it that memory is not dialled while it closes, nor after
	ended  bool

	mu   sync.Mutex
	conn net.Conn
	r    *bufio.Reader
}

// answering is how long the server may take to be connected to, and to reply.
const answering = 10 * time.Second

func startServer(s *suite, prefix string, moved *atomic.Int64) (*server, error) {
	srv := &server{prefix: prefix, moved: moved, username: s.o.username, password: s.o.password}
	switch {
	case s.o.addr != "":
		srv.dial = wire.TCP(s.o.addr)
	case s.h.TCPOnly:
		srv.password = canary
		srv.memory = miniredis.NewMiniRedis()
		if err := srv.memory.Start(); err != nil {
			return nil, err
		}
		srv.dial = wire.TCP(srv.memory.Addr())
	default:
		srv.password = canary
		srv.memory = miniredis.NewMiniRedis()
		srv.dial = func(context.Context) (net.Conn, error) {
			// A client that dials in the background must not meet the end of the case.
			srv.ending.Lock()
			defer srv.ending.Unlock()
			if srv.ended {
				return nil, net.ErrClosed
			}
			c, err := srv.memory.Dial()
			if err != nil {
				return nil, err
			}
			return moving{c, moved}, nil
		}
	}
	if srv.memory != nil {
		srv.memory.ClockTTL(true)
		srv.memory.RequireAuth(srv.password)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answering)
	defer cancel()
	var err error
	if srv.conn, err = srv.dial(ctx); err != nil {
		return nil, fmt.Errorf("conformance: connecting to the server: %w", err)
	}
	srv.r = bufio.NewReader(srv.conn)
	if srv.password != "" {
		auth := []string{"AUTH", srv.username, srv.password}
		if srv.username == "" {
			auth = []string{"AUTH", srv.password}
		}
		v, err := srv.do(auth...)
		if e, ok := v.(*driver.ServerError); ok {
			err = e
		}
		if err != nil {
			srv.close(nil)
			return nil, fmt.Errorf("conformance: authenticating with the server: %w", err)
		}
	}
	return srv, nil
}

// moving is a connection that counts what passes it.
type moving struct {
	net.Conn
	n *atomic.Int64
}

func (c moving) Read(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Read(p)
}

func (c moving) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// do sends a command directly, not through the wire. An error reply is a value.
func (s *server) do(args ...string) (driver.Value, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.conn.SetDeadline(time.Now().Add(answering))
	if _, err := s.conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return nil, err
	}
	frame, err := resp.ReadFrame(s.r)
	if err != nil {
		return nil, err
	}
	return resp.Parse(frame)
}

func (s *server) close(keys []string) {
	for _, other := range s.others {
		other.close(keys)
	}
	if s.memory == nil && s.conn != nil {
		for _, key := range keys {
			_, _ = s.do("DEL", key)
		}
	}
	if s.conn != nil {
		_ = s.conn.Close()
	}
	if s.memory != nil {
		s.ending.Lock()
		defer s.ending.Unlock()
		s.ended = true
		s.memory.Close()
	}
}

// direct asks the server itself and ends the case if it does not answer. An
// error reply is a value. On a quorum it asks every node, and returns what a majority says.
func (k *kit) direct(args ...string) driver.Value {
	var replies []driver.Value
	for _, node := range k.server.nodes() {
		v, err := node.do(args...)
		if err != nil {
			k.Fatalf("the suite's own connection: %s: %v", args[0], err)
		}
		replies = append(replies, v)
	}
	if len(replies) == 1 {
		return replies[0]
	}
	return agreed(replies)
}
