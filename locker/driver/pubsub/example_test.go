package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A loop is the connection of an imaginary client, whose server acknowledges
// everything and greets each new channel. The Conn of a real driver writes the
// command in Send, and in Receive translates what its client has read.
type loop struct {
	events chan pubsub.Event
	closed context.Context
	close  context.CancelFunc
}

var _ pubsub.Conn = (*loop)(nil)

func dial(context.Context) (pubsub.Conn, error) {
	c := &loop{events: make(chan pubsub.Event, 100)}
	c.closed, c.close = context.WithCancel(context.Background())
	return c, nil
}

func (c *loop) Send(_ context.Context, args ...string) error {
	if c.closed.Err() != nil {
		return io.ErrClosedPipe
	}
	switch args[0] {
	case "PING":
		c.events <- pubsub.Event{Kind: pubsub.Pong}
	case "SUBSCRIBE":
		for _, channel := range args[1:] {
			c.events <- pubsub.Event{Kind: pubsub.Subscribed, Channel: channel}
			c.events <- pubsub.Event{Kind: pubsub.Message, Channel: channel, Payload: "hello"}
		}
	case "UNSUBSCRIBE":
		for _, channel := range args[1:] {
			c.events <- pubsub.Event{Kind: pubsub.Unsubscribed, Channel: channel}
		}
	}
	return nil
}

func (c *loop) Receive(ctx context.Context) (pubsub.Event, error) {
	select {
	case event := <-c.events:
		return event, nil
	case <-ctx.Done():
		return pubsub.Event{}, ctx.Err()
	case <-c.closed.Done():
		return pubsub.Event{}, io.EOF
	}
}

func (c *loop) Close() error {
	c.close()
	return nil
}

func ExampleNew() {
	ctx := context.Background()
	sub := pubsub.New(dial)
	defer sub.Close()

	if err := sub.Add(ctx, "news", "weather"); err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		message, err := sub.Receive(ctx)
		fmt.Println(message.Channel, message.Payload, err)
	}
	fmt.Println(sub.Remove(ctx, "news"))
	// Output:
	// news hello <nil>
	// weather hello <nil>
	// <nil>
}

// What a driver's Subscribe looks like.
func ExampleDialer() {
	var dial pubsub.Dialer = func(context.Context) (pubsub.Conn, error) {
		return nil, errors.New("connection refused")
	}
	subscribe := func(context.Context) (driver.Subscription, error) {
		return pubsub.New(dial), nil
	}

	sub, err := subscribe(context.Background())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer sub.Close()
	fmt.Println(sub.Add(context.Background(), "news"))
	// Output: pubsub: connecting: connection refused
}
