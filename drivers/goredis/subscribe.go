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
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	ps := c.client.Subscribe(ctx) // without a channel it does not connect yet
	pingErr, err := aside.Call(ctx, c.life.Done(), func() error { return ps.Ping(ctx) }, nil)
	if err != nil {
		go ps.Close() // waits for Ping
		return nil, fmt.Errorf("goredis: no reply yet: %w", err)
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
		err = p.ps.Subscribe(noRedial(ctx), channels...)
	case "UNSUBSCRIBE":
		err = p.ps.Unsubscribe(noRedial(ctx), channels...)
	case "PING":
		err = p.ps.Ping(noRedial(ctx))
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
	reply, err := p.ps.Receive(noRedial(ctx))
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

var acknowledgements = map[string]pubsub.Kind{"subscribe": pubsub.Subscribed, "unsubscribe": pubsub.Unsubscribed}

// Close implements [pubsub.Conn].
func (p *pubsubConn) Close() error { return p.ps.Close() }

// noRedial returns a context that has ended but keeps the deadline of ctx.
// go-redis reads and writes with it until that deadline, but does not dial. (Its
// dialer for TLS does not look at the context. A wrapped client that uses it
// connects again in vain: the first error closes the redis.PubSub all the same.)
func noRedial(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
