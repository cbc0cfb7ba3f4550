package redigo

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A subscription is known to its conn, which closes it.
type subscription struct {
	*pubsub.Subscription
	conn *conn
}

// Subscribe implements [driver.Subscriber]. The connection is made by the pool's
// Dial or DialContext but is not part of the pool: it counts towards no limit and
// is never given back in the subscribed state.
func (c *conn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("redigo: subscribe: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil, driver.NotSent(errClosed)
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

func (c *conn) dialPubSub(ctx context.Context) (pubsub.Conn, error) {
	rc, err := c.dialOutside(ctx)
	if err != nil {
		return nil, driver.NotSent(c.unconnected(ctx, err))
	}
	timed, ok := rc.(redis.ConnWithTimeout)
	if !ok {
		_ = rc.Close()
		return nil, driver.NotSent(fmt.Errorf("redigo: %w: a subscription must outlast the read timeout, so the connections that the pool's Dial returns must implement redis.ConnWithTimeout", driver.ErrUnsupported))
	}
	return &pubsubConn{timed}, nil
}

// dialOutside returns a connection like those in the pool that is not of the pool.
func (c *conn) dialOutside(ctx context.Context) (redis.Conn, error) {
	if c.opener != nil {
		return c.opener.dial(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, driver.DefaultDialTimeout)
	defer cancel()
	return detached(ctx, func(ctx context.Context) (redis.Conn, error) {
		switch {
		case c.pool.DialContext != nil:
			return c.pool.DialContext(ctx)
		case c.pool.Dial != nil:
			return c.pool.Dial()
		}
		return nil, errors.New("the pool has neither Dial nor DialContext")
	})
}

// A pubsubConn is what package pubsub needs of a connection. Its Close may run
// beside everything else, since the connection is not a pooled one.
type pubsubConn struct{ redis.ConnWithTimeout }

func (c *pubsubConn) Send(ctx context.Context, args ...string) error {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	err := c.ConnWithTimeout.Send(args[0], arguments(args)...)
	if err == nil {
		err = c.Flush()
	}
	if err != nil {
		return lost(ctx, nil, err)
	}
	return nil
}

func (c *pubsubConn) Receive(ctx context.Context) (pubsub.Event, error) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	reply, err := c.ReceiveWithTimeout(0) // as long as it takes
	if answer, ok := errors.AsType[redis.Error](err); ok {
		return pubsub.Event{}, driver.NewServerError(string(answer))
	}
	if err != nil {
		return pubsub.Event{}, lost(ctx, nil, err)
	}
	return event(reply), nil
}

func event(reply any) pubsub.Event {
	parts, ok := value(reply).([]any)
	if !ok {
		parts = []any{reply} // PONG, while subscribed to nothing
	}
	text := func(i int) string {
		if i >= len(parts) {
			return ""
		}
		s, _ := parts[i].(string)
		return s
	}
	switch text(0) {
	case "message":
		return pubsub.Event{Kind: pubsub.Message, Channel: text(1), Payload: text(2)}
	case "subscribe":
		return pubsub.Event{Kind: pubsub.Subscribed, Channel: text(1)}
	case "unsubscribe":
		return pubsub.Event{Kind: pubsub.Unsubscribed, Channel: text(1)}
	case "pong", "PONG":
		return pubsub.Event{Kind: pubsub.Pong}
	}
	return pubsub.Event{}
}
