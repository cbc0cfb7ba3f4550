package customdriver

import (
	"context"
	"fmt"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// Subscribe implements driver.Subscriber. Package pubsub does what is hard:
// acknowledgements, reconnecting, gaps, and noticing a dead connection.
func (c *client) Subscribe(ctx context.Context) (driver.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("customdriver: %w", err))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pool.closed.Err() != nil {
		return nil, driver.NotSent(fmt.Errorf("customdriver: %w", driver.ErrClosed))
	}
	s := &subscription{pubsub.New(c.listen), c}
	c.subscriptions[s] = struct{}{}
	return s, nil
}

// listen is the pubsub.Dialer: a connection outside the pool, on which silence
// is no failure.
func (c *client) listen(ctx context.Context) (pubsub.Conn, error) {
	conn, err := c.pool.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("customdriver: %w", err)
	}
	conn.timeout = 0
	return &listener{conn}, nil
}

// A subscription is forgotten by its client when it is closed.
type subscription struct {
	*pubsub.Subscription
	client *client
}

func (s *subscription) Close() error {
	s.client.mu.Lock()
	delete(s.client.subscriptions, s)
	s.client.mu.Unlock()
	return s.Subscription.Close()
}

// unsubscribeAll closes what Subscribe opened.
func (c *client) unsubscribeAll() {
	c.mu.Lock()
	open := c.subscriptions
	c.subscriptions = nil
	c.mu.Unlock()
	for s := range open {
		s.Subscription.Close()
	}
}

// A listener is the pubsub.Conn. When a ctx ends, which is when package pubsub
// gives the connection up, it is broken for good.
type listener struct{ conn *conn }

var _ pubsub.Conn = (*listener)(nil)

func (l *listener) Send(ctx context.Context, args ...string) error {
	defer context.AfterFunc(ctx, l.conn.interrupt)()
	return l.conn.write(appendCommand(nil, args))
}

func (l *listener) Receive(ctx context.Context) (pubsub.Event, error) {
	defer context.AfterFunc(ctx, l.conn.interrupt)()
	reply, err := readReply(l.conn.br)
	if err != nil {
		return pubsub.Event{}, err
	}
	if refusal, ok := reply.(*driver.ServerError); ok {
		return pubsub.Event{}, refusal
	}
	return event(reply), nil
}

func (l *listener) Close() error {
	l.conn.close()
	return nil
}

// event reads a reply of a connection in pub/sub mode. PING is answered by an
// array there, but by a status while no channel is subscribed.
func event(reply driver.Value) pubsub.Event {
	if reply == "PONG" {
		return pubsub.Event{Kind: pubsub.Pong}
	}
	items, _ := reply.([]any)
	if len(items) < 2 {
		return pubsub.Event{}
	}
	channel, _ := items[1].(string)
	switch items[0] {
	case "message":
		if len(items) == 3 {
			payload, _ := items[2].(string)
			return pubsub.Event{Kind: pubsub.Message, Channel: channel, Payload: payload}
		}
	case "subscribe":
		return pubsub.Event{Kind: pubsub.Subscribed, Channel: channel}
	case "unsubscribe":
		return pubsub.Event{Kind: pubsub.Unsubscribed, Channel: channel}
	case "pong":
		return pubsub.Event{Kind: pubsub.Pong}
	}
	return pubsub.Event{}
}
