package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// Subscribe implements [driver.Subscriber].
func (c *conn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	return c.subs.Subscribe(ctx, c.dialPubSub)
}

// dialPubSub is the [pubsub.Dialer] of all subscriptions.
func (c *conn) dialPubSub(ctx context.Context) (pubsub.Conn, error) {
	ps := c.client.Subscribe(ctx) // without a channel it connects with the first command
	pingErr, err := aside.Call(ctx, c.life.Done(), func() error { return ps.Ping(ctx) }, nil)
	if err != nil {
		go ps.Close() // waits for Ping
		return nil, fmt.Errorf("goredis: no reply yet: %w", err)
	}
	if pingErr != nil {
		ps.Close()
		return nil, c.failure(ctx, pingErr)
	}
	return &pubsubConn{conn: c, ps: ps, closed: make(chan struct{})}, nil
}

// A pubsubConn reduces a redis.PubSub, which would connect again by itself after an error,
// to a single network connection. Its reconnects are in vain, see noRedial; but a
// dialer that does not look at its context may take long about one, and nothing
// else can be done with the redis.PubSub meanwhile. So all calls of it are made in other goroutines.
type pubsubConn struct {
	conn     *conn
	ps       *redis.PubSub
	answered bool // by the reply to the PING of dialPubSub
	closed   chan struct{}
}

var _ pubsub.Conn = (*pubsubConn)(nil)

// Send implements [pubsub.Conn].
func (p *pubsubConn) Send(ctx context.Context, args ...string) error {
	err, left := aside.Call(ctx, p.closed, func() error { return p.send(args[0], args[1:]) }, nil)
	if left != nil {
		return fmt.Errorf("goredis: not sent yet: %w", left)
	}
	if err != nil {
		return p.conn.failure(ctx, err)
	}
	return nil
}

func (p *pubsubConn) send(name string, channels []string) error {
	switch name {
	case "SUBSCRIBE":
		return p.ps.Subscribe(noRedial, channels...)
	case "UNSUBSCRIBE":
		return p.ps.Unsubscribe(noRedial, channels...)
	case "PING":
		return p.ps.Ping(noRedial)
	}
	return fmt.Errorf("goredis: %s on a pub/sub connection: %w", name, driver.ErrUnsupported)
}

// Receive implements [pubsub.Conn].
//
// What arrives first answers the PING of dialPubSub. If that is an error, the subscriber does not
// see it: a server that is loading refuses PING and not SUBSCRIBE, and so may an ACL.
func (p *pubsubConn) Receive(ctx context.Context) (pubsub.Event, error) {
	reply, err := p.receive(ctx)
	if refusal, refused := serverError(err); refused && !p.answered {
		if reply, err = p.receive(ctx); err != nil {
			err = fmt.Errorf("%w, after PING was answered %v", err, refusal)
		}
	}
	p.answered = true
	if err != nil {
		return pubsub.Event{}, p.conn.failure(ctx, err)
	}
	switch reply := reply.(type) {
	case *redis.Message:
		return pubsub.Event{Kind: pubsub.Message, Channel: reply.Channel, Payload: reply.Payload}, nil
	case *redis.Subscription:
		return pubsub.Event{Kind: acknowledgements[reply.Kind], Channel: reply.Channel}, nil
	case *redis.Pong:
		return pubsub.Event{Kind: pubsub.Pong}, nil
	}
	return pubsub.Event{}, nil
}

func (p *pubsubConn) receive(ctx context.Context) (any, error) {
	a := &arrival{ps: p.ps}
	if err := p.conn.crew.Call(ctx, p.closed, a); err != nil {
		return nil, err
	}
	return a.reply, a.err
}

// An arrival is what redis.PubSub.Receive returns.
type arrival struct {
	ps    *redis.PubSub
	reply any
	err   error
}

// Run is called in another goroutine, and may go on after the caller has left.
func (a *arrival) Run() { a.reply, a.err = a.ps.Receive(noRedial) }

var acknowledgements = map[string]pubsub.Kind{"subscribe": pubsub.Subscribed, "unsubscribe": pubsub.Unsubscribed}

// Close implements [pubsub.Conn]. It does not wait for a redis.PubSub that dials.
func (p *pubsubConn) Close() error {
	close(p.closed)
	go p.ps.Close()
	return nil
}

// noRedial is a context that has ended: with it go-redis reads and writes, by its own timeouts, but does
// not dial. (Its own dialer for TLS does not look at the context. A wrapped client with that dialer
// connects again in vain: the first error closes the redis.PubSub all the same.)
var noRedial = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
