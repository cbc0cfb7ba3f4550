package pubsub_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errRefused = errors.New("connection refused")

// A server stands for a Redis server and the network before it. Its zero value
// is healthy. Fields may be changed under mu while it is in use.
type server struct {
	mu        sync.Mutex
	dialErr   error           // what Dial returns
	dialHangs bool            // Dial waits for its ctx
	silent    bool            // commands are taken and nothing comes back
	stuck     bool            // Send blocks until Close
	held      bool            // replies wait for release
	mute      bool            // PING is answered by something that is no Pong
	sendErr   error           // what Send returns
	denied    map[string]bool // channels that answer NOPERM
	dropAfter int             // break a connection after that many commands; 0: never

	dials []time.Time
	conns []*conn    // all ever made
	log   [][]string // commands received
}

func (s *server) dial(ctx context.Context) (pubsub.Conn, error) {
	s.mu.Lock()
	s.dials = append(s.dials, time.Now())
	err, hangs := s.dialErr, s.dialHangs
	s.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	c := &conn{server: s, channels: map[string]bool{}, more: make(chan struct{}, 1), broken: make(chan struct{})}
	s.mu.Lock()
	s.conns = append(s.conns, c)
	s.mu.Unlock()
	return c, nil
}

// set changes s under its lock.
func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// cut breaks all connections.
func (s *server) cut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.close()
	}
}

// release lets go the replies that are held, and holds no more.
func (s *server) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = false
	for _, c := range s.conns {
		c.notify()
	}
}

func (s *server) publish(channel, payload string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if c.channels[channel] && !s.silent {
			c.reply(reply{event: pubsub.Event{Kind: pubsub.Message, Channel: channel, Payload: payload}})
		}
	}
}

// push sends an event of the test's own to all connections.
func (s *server) push(event pubsub.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		c.reply(reply{event: event})
	}
}

// subscribers counts the open connections subscribed to channel.
func (s *server) subscribers(channel string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.conns {
		if c.channels[channel] && !c.closed {
			n++
		}
	}
	return n
}

func (s *server) open() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, c := range s.conns {
		if !c.closed {
			n++
		}
	}
	return n
}

func (s *server) dialCount() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dials)
}

// count returns how many commands of that name came.
func (s *server) count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, args := range s.log {
		if args[0] == name {
			n++
		}
	}
	return n
}

type reply struct {
	event pubsub.Event
	err   error
}

type conn struct {
	server   *server
	channels map[string]bool
	replies  []reply
	commands int
	more     chan struct{}
	broken   chan struct{}
	closed   bool
}

func (c *conn) close() {
	if !c.closed {
		c.closed = true
		close(c.broken)
	}
}

func (c *conn) Close() error {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.close()
	return nil
}

func (c *conn) notify() {
	select {
	case c.more <- struct{}{}:
	default:
	}
}

func (c *conn) reply(r reply) {
	c.replies = append(c.replies, r)
	c.notify()
}

func (c *conn) Send(_ context.Context, args ...string) error {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stuck {
		s.mu.Unlock()
		<-c.broken
		s.mu.Lock()
	}
	if c.closed {
		return io.ErrClosedPipe
	}
	if s.sendErr != nil {
		return s.sendErr
	}
	s.log = append(s.log, slices.Clone(args))
	c.commands++
	if s.dropAfter > 0 && c.commands >= s.dropAfter {
		c.close()
		return nil
	}
	if s.silent {
		return nil
	}
	switch args[0] {
	case "PING":
		if s.mute {
			c.reply(reply{event: pubsub.Event{Kind: pubsub.Other}})
			return nil
		}
		c.reply(reply{event: pubsub.Event{Kind: pubsub.Pong}})
	case "SUBSCRIBE":
		if slices.ContainsFunc(args[1:], func(ch string) bool { return s.denied[ch] }) {
			c.reply(reply{err: driver.NewServerError("NOPERM No permissions to access a channel")})
			return nil
		}
		for _, ch := range args[1:] {
			c.channels[ch] = true
			c.reply(reply{event: pubsub.Event{Kind: pubsub.Subscribed, Channel: ch}})
		}
	case "UNSUBSCRIBE":
		for _, ch := range args[1:] {
			delete(c.channels, ch)
			c.reply(reply{event: pubsub.Event{Kind: pubsub.Unsubscribed, Channel: ch}})
		}
	}
	return nil
}

func (c *conn) Receive(context.Context) (pubsub.Event, error) {
	for {
		c.server.mu.Lock()
		if c.closed {
			c.server.mu.Unlock()
			return pubsub.Event{}, io.EOF
		}
		if len(c.replies) > 0 && !c.server.held {
			r := c.replies[0]
			c.replies = c.replies[1:]
			c.server.mu.Unlock()
			return r.event, r.err
		}
		c.server.mu.Unlock()
		select {
		case <-c.more:
		case <-c.broken:
		}
	}
}
