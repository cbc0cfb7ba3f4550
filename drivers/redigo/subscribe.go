package redigo

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// Subscribe implements [driver.Subscriber]. The connection is made by the pool's
// Dial or DialContext but is not part of the pool: it counts towards no limit and
// is never given back in the subscribed state.
func (c *conn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	return c.subscriptions.Subscribe(ctx, c.dialPubSub)
}

// dialPubSub dials in another goroutine: an application's Dial need not heed ctx.
func (c *conn) dialPubSub(ctx context.Context) (pubsub.Conn, error) {
	bounded, cancel := context.WithTimeout(ctx, c.patience)
	defer cancel()
	rc, err := c.openAside(bounded, func() (redis.Conn, error) { return c.dial(bounded) })
	if err != nil {
		return nil, c.unconnected(ctx, err)
	}
	return newPubsubConn(rc)
}

func newPubsubConn(rc redis.Conn) (pubsub.Conn, error) {
	timed, ok := rc.(redis.ConnWithTimeout)
	if !ok {
		_ = rc.Close()
		return nil, fmt.Errorf("redigo: %w: a subscription must outlast the read timeout, so the connections that the pool's Dial returns must implement redis.ConnWithTimeout", driver.ErrUnsupported)
	}
	return &pubsubConn{timed}, nil
}

// A pubsubConn is what package pubsub needs of a connection. Its Close may run
// beside everything else, since the connection is not a pooled one, and ends it.
type pubsubConn struct{ redis.ConnWithTimeout }

func (c *pubsubConn) Send(_ context.Context, args ...string) error {
	if err := c.ConnWithTimeout.Send(args[0], appendArguments(nil, driver.Command{Args: args})...); err != nil {
		return err
	}
	return c.Flush()
}

func (c *pubsubConn) Receive(context.Context) (pubsub.Event, error) {
	reply, err := c.ReceiveWithTimeout(0) // as long as it takes
	if err != nil {
		return pubsub.Event{}, answered(err)
	}
	return event(value(reply)), nil
}

var kinds = map[string]pubsub.Kind{
	"message":     pubsub.Message,
	"subscribe":   pubsub.Subscribed,
	"unsubscribe": pubsub.Unsubscribed,
	"pong":        pubsub.Pong,
	"PONG":        pubsub.Pong, // while subscribed to nothing
}

func event(reply driver.Value) pubsub.Event {
	parts, ok := reply.([]any)
	if !ok {
		parts = []any{reply}
	}
	var texts [3]string
	for i := range min(len(parts), len(texts)) {
		texts[i], _ = parts[i].(string)
	}
	return pubsub.Event{Kind: kinds[texts[0]], Channel: texts[1], Payload: texts[2]}
}
