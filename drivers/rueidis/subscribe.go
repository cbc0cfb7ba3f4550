package rueidis

import (
	"context"
	"fmt"
	"sync"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

var (
	_ driver.Subscription = (*subscription)(nil)
	_ pubsub.Conn         = (*channelConn)(nil)
)

// A subscription is one that its Conn knows, to close it.
type subscription struct {
	*pubsub.Subscription
	conn *conn
}

// Subscribe implements [driver.Subscriber]. The first Add opens the connection.
func (c *conn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs == nil {
		return nil, driver.NotSent(fmt.Errorf("rueidis: %w", driver.ErrClosed))
	}
	s := &subscription{pubsub.New(c.dialChannels), c}
	c.subs[s] = struct{}{}
	return s, nil
}

// Close implements [driver.Subscription].
func (s *subscription) Close() error {
	s.conn.mu.Lock()
	delete(s.conn.subs, s)
	s.conn.mu.Unlock()
	return s.Subscription.Close()
}

func (c *conn) closeSubscriptions() {
	c.mu.Lock()
	subs := c.subs
	c.subs = nil
	c.mu.Unlock()
	var wg sync.WaitGroup
	for s := range subs {
		wg.Go(func() { _ = s.Subscription.Close() })
	}
	wg.Wait()
}

// A channelConn is a connection of its own, taken from the client's pool and
// never given back.
type channelConn struct {
	client   rue.DedicatedClient
	lost     <-chan error
	arrivals chan arrival
	closed   chan struct{}
	closing  sync.Once
}

// An arrival is what Receive returns.
type arrival struct {
	event   pubsub.Event
	refusal *driver.ServerError
}

// probe is a channel that nobody subscribes to. Unsubscribing from it is answered
// on the very connection that brings the messages; a PING is not where rueidis
// speaks RESP2, which takes a second connection for them.
const probe = "golocker:rueidis:probe"

// dialChannels is a [pubsub.Dialer]. Dedicate has neither a ctx nor an error, so
// it runs aside, and the probe shows whether there is a connection.
func (c *conn) dialChannels(ctx context.Context) (pubsub.Conn, error) {
	type outcome struct {
		conn *channelConn
		err  error
	}
	dialed := make(chan outcome, 1)
	go func() {
		client, _ := c.client.Dedicate()
		s := &channelConn{client: client, arrivals: make(chan arrival, 64), closed: make(chan struct{})}
		s.lost = client.SetPubSubHooks(rue.PubSubHooks{OnMessage: s.onMessage, OnSubscription: s.onSubscription})
		err := s.probe(ctx)
		if err != nil {
			_ = s.Close()
		}
		dialed <- outcome{s, err}
	}()
	select {
	case d := <-dialed:
		if d.err != nil {
			return nil, c.failure(ctx, d.err)
		}
		return d.conn, nil
	case <-ctx.Done():
		go func() { _ = (<-dialed).conn.Close() }()
		return nil, fmt.Errorf("rueidis: subscribe: %w", ctx.Err())
	}
}

// probe returns whether the server answers at all.
func (s *channelConn) probe(ctx context.Context) error {
	return s.client.Do(ctx, s.client.B().Unsubscribe().Channel(probe).Build()).NonRedisError()
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
		if err := s.probe(ctx); err != nil {
			return err
		}
		s.arrive(arrival{event: pubsub.Event{Kind: pubsub.Pong}})
		return nil
	}
	result := s.client.Do(ctx, command)
	if err := result.NonRedisError(); err != nil {
		return err
	}
	message, _ := result.ToMessage()
	if refusal := serverError(&message); refusal != nil {
		s.arrive(arrival{refusal: refusal})
	}
	return nil
}

// Receive implements [pubsub.Conn].
func (s *channelConn) Receive(ctx context.Context) (pubsub.Event, error) {
	select {
	case a := <-s.arrivals:
		if a.refusal != nil {
			return pubsub.Event{}, a.refusal
		}
		return a.event, nil
	case err := <-s.lost:
		if err == nil {
			err = rue.ErrClosing
		}
		return pubsub.Event{}, fmt.Errorf("rueidis: %w", err)
	case <-s.closed:
		return pubsub.Event{}, driver.ErrClosed
	case <-ctx.Done():
		return pubsub.Event{}, ctx.Err()
	}
}

// Close implements [pubsub.Conn]. If the server hangs, rueidis waits for it for a
// second, or two where it speaks RESP2; that is not waited for.
func (s *channelConn) Close() error {
	s.closing.Do(func() {
		close(s.closed) // the hooks must not block
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.client.Close()
		}()
		select {
		case <-done:
		case <-time.After(closeGrace):
		}
	})
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
	kind := pubsub.Other
	switch {
	case sub.Channel == probe:
	case sub.Kind == "subscribe":
		kind = pubsub.Subscribed
	case sub.Kind == "unsubscribe":
		kind = pubsub.Unsubscribed
	}
	s.arrive(arrival{event: pubsub.Event{Kind: kind, Channel: sub.Channel}})
}
