package rueidis

import (
	"cmp"
	"context"
	"fmt"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

var _ pubsub.Conn = (*channelConn)(nil)

// A channelConn is a connection of its own, taken from the client's pool and
// never given back.
type channelConn struct {
	client   rue.DedicatedClient
	lost     <-chan error
	arrivals chan arrival
	closed   chan struct{}
}

// An arrival is what Receive returns.
type arrival struct {
	event pubsub.Event
	err   error
}

// probe is a channel that nobody publishes to, and a key that does not exist (see question). Subscribing to it is answered on the very
// connection that brings the messages, even if it is subscribed to already. A PING is
// not, where rueidis speaks RESP2: it takes a second connection for messages then.
//
// Unsubscribing would be answered there, too. But a server that is busy with a script
// refuses it, and also the PING that rueidis sends behind it, and two refusals are one
// more than rueidis expects, so that it panics. A Remove can still run into that; locks never
// remove a channel.
const probe = "__golocker:probe"

// dialChannels is a [pubsub.Dialer]. Dedicate returns no error, so the probe shows whether
// there is a connection. That is done in another goroutine: to set hooks rueidis may have to make
// a second connection, which heeds no ctx.
func (c *conn) dialChannels(ctx context.Context) (pubsub.Conn, error) {
	d, err := c.dedicator.take(ctx, c.client)
	if err != nil {
		return nil, fmt.Errorf("rueidis: subscribe: no dedicated connection yet (does the dial hang, or are all of BlockingPoolSize in use?): %w", err)
	}
	s := &channelConn{client: d, arrivals: make(chan arrival, 64), closed: make(chan struct{})}
	unusable, err := aside.Call(ctx, nil, func() error {
		s.lost = d.SetPubSubHooks(rue.PubSubHooks{OnMessage: s.onMessage, OnSubscription: s.onSubscription})
		return s.probe(ctx)
	}, func(error) { _ = s.Close() })
	if err != nil {
		return nil, fmt.Errorf("rueidis: subscribe: %w", err)
	}
	if unusable != nil {
		_ = s.Close()
		return nil, c.failure(ctx, unusable)
	}
	return s, nil
}

// probe returns whether the server answers at all.
func (s *channelConn) probe(ctx context.Context) error {
	return s.client.Do(ctx, s.client.B().Subscribe().Channel(probe).Build()).NonRedisError()
}

// Send implements [pubsub.Conn]. rueidis does not return before the reply; the
// hooks have been called by then.
func (s *channelConn) Send(ctx context.Context, args ...string) error {
	var command rue.Completed
	switch args[0] {
	case "SUBSCRIBE":
		command = s.client.B().Subscribe().Channel(args[1:]...).Build()
	case "UNSUBSCRIBE":
		command = s.client.B().Unsubscribe().Channel(args[1:]...).Build()
	default:
		err := s.probe(ctx)
		if err == nil {
			s.arrive(arrival{event: pubsub.Event{Kind: pubsub.Pong}})
		}
		return err
	}
	result := s.client.Do(ctx, command)
	if err := result.NonRedisError(); err != nil {
		return err
	}
	message, _ := result.ToMessage()
	if err := refusal(&message); err != nil {
		s.arrive(arrival{err: err})
	}
	return nil
}

// Receive implements [pubsub.Conn].
func (s *channelConn) Receive(context.Context) (pubsub.Event, error) {
	select {
	case a := <-s.arrivals:
		return a.event, a.err
	case err := <-s.lost:
		return pubsub.Event{}, fmt.Errorf("rueidis: %w", cmp.Or(err, rue.ErrClosing))
	case <-s.closed:
		return pubsub.Event{}, driver.ErrClosed
	}
}

// Close implements [pubsub.Conn]. It does not wait for rueidis, which waits for a server that hangs for a
// second, or two where it speaks RESP2.
func (s *channelConn) Close() error {
	close(s.closed) // the hooks must not block
	go s.client.Close()
	return nil
}

// arrive keeps the client's reader waiting while Receive lags behind, but not
// beyond Close.
func (s *channelConn) arrive(a arrival) {
	select {
	case s.arrivals <- a:
	case <-s.closed:
	}
}

func (s *channelConn) onMessage(m rue.PubSubMessage) {
	s.arrive(arrival{event: pubsub.Event{Kind: pubsub.Message, Channel: m.Channel, Payload: m.Message}})
}

func (s *channelConn) onSubscription(sub rue.PubSubSubscription) {
	kind := acknowledgements[sub.Kind]
	if sub.Channel == probe {
		kind = pubsub.Other
	}
	s.arrive(arrival{event: pubsub.Event{Kind: kind, Channel: sub.Channel}})
}

var acknowledgements = map[string]pubsub.Kind{"subscribe": pubsub.Subscribed, "unsubscribe": pubsub.Unsubscribed}
