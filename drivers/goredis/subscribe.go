package goredis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A subscription is known to its conn as long as it is open.
type subscription struct {
	*pubsub.Subscription
	conn *conn
}

// Subscribe implements [driver.Subscriber].
func (c *conn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	s := &subscription{pubsub.New(c.dialPubSub), c}
	c.subscriptions[s] = struct{}{}
	return s, nil
}

// Close implements [driver.Subscription].
func (s *subscription) Close() error {
	s.conn.mu.Lock()
	delete(s.conn.subscriptions, s)
	s.conn.mu.Unlock()
	return s.Subscription.Close()
}

// dialPubSub is the [pubsub.Dialer] of all subscriptions.
func (c *conn) dialPubSub(ctx context.Context) (pubsub.Conn, error) {
	ps := c.client.Subscribe(ctx) // without a channel it does not connect yet
	var pingErr error
	if err := c.run(ctx, func() { pingErr = ps.Ping(ctx) }); err != nil {
		go ps.Close() // waits for Ping
		return nil, err
	}
	if pingErr != nil {
		ps.Close()
		return nil, c.failure(ctx, pingErr)
	}
	return &pubsubConn{conn: c, ps: ps}, nil
}

// A pubsubConn makes one network connection of a redis.PubSub, which would
// connect again by itself after an error.
type pubsubConn struct {
	conn *conn
	ps   *redis.PubSub
}

var _ pubsub.Conn = (*pubsubConn)(nil)

// Send implements [pubsub.Conn].
func (p *pubsubConn) Send(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, driver.DefaultTimeout)
	defer cancel()
	var err error
	switch name, channels := args[0], args[1:]; name {
	case "SUBSCRIBE":
		err = p.ps.Subscribe(noRedial{ctx}, channels...)
	case "UNSUBSCRIBE":
		err = p.ps.Unsubscribe(noRedial{ctx}, channels...)
	case "PING":
		err = p.ps.Ping(noRedial{ctx})
	default:
		err = fmt.Errorf("goredis: %s on a pub/sub connection: %w", name, driver.ErrUnsupported)
	}
	if err != nil {
		return p.conn.failure(ctx, err)
	}
	return nil
}

// Receive implements [pubsub.Conn].
func (p *pubsubConn) Receive(ctx context.Context) (pubsub.Event, error) {
	reply, err := p.ps.Receive(noRedial{ctx})
	if err != nil {
		return pubsub.Event{}, p.conn.failure(ctx, err)
	}
	switch reply := reply.(type) {
	case *redis.Message:
		return pubsub.Event{Kind: pubsub.Message, Channel: reply.Channel, Payload: reply.Payload}, nil
	case *redis.Subscription:
		switch reply.Kind {
		case "subscribe":
			return pubsub.Event{Kind: pubsub.Subscribed, Channel: reply.Channel}, nil
		case "unsubscribe":
			return pubsub.Event{Kind: pubsub.Unsubscribed, Channel: reply.Channel}, nil
		}
	case *redis.Pong:
		return pubsub.Event{Kind: pubsub.Pong}, nil
	}
	return pubsub.Event{}, nil
}

// Close implements [pubsub.Conn].
func (p *pubsubConn) Close() error { return p.ps.Close() }

// noRedial is a context that has ended but keeps its deadline. go-redis reads
// and writes with it until that deadline, but does not dial. (Its dialer for TLS
// does not look at the context. A wrapped client that uses it connects again in
// vain: the first error closes the redis.PubSub all the same.)
type noRedial struct{ context.Context }

var ended = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done returns a closed channel.
func (noRedial) Done() <-chan struct{} { return ended }

// Err returns context.Canceled.
func (noRedial) Err() error { return context.Canceled }
