package goredis

import (
	"context"
	"fmt"
	"sync"

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
	return c.newPubSubConn(ps), nil
}

// A pubsubConn makes one network connection of a redis.PubSub, which would
// connect again by itself after an error. It does so in vain, see noRedial, but a
// dialer that does not look at its context may take long about it, and nothing
// else can be done with the redis.PubSub meanwhile. So all of it is done aside.
type pubsubConn struct {
	conn     *conn
	ps       *redis.PubSub
	arrivals chan arrival
	closed   chan struct{}
	closing  sync.Once
}

var _ pubsub.Conn = (*pubsubConn)(nil)

// An arrival is what redis.PubSub.Receive returns.
type arrival struct {
	reply any
	err   error
}

func (c *conn) newPubSubConn(ps *redis.PubSub) *pubsubConn {
	p := &pubsubConn{conn: c, ps: ps, arrivals: make(chan arrival), closed: make(chan struct{})}
	go p.read()
	return p
}

// read receives until Close. The first error that is no reply is the last: from
// then on it is all that arrives.
//
// What arrives first answers the PING of dialPubSub. If that is an error, it is kept from
// who subscribes: a server that is loading refuses PING and not SUBSCRIBE, and so may an ACL.
func (p *pubsubConn) read() {
	a := p.receive()
	if reply, refused := serverError(a.err); refused {
		if a = p.receive(); a.lost() {
			a.err = fmt.Errorf("%w, after PING was answered %v", a.err, reply)
		}
	}
	for {
		select {
		case p.arrivals <- a:
		case <-p.closed:
			return
		}
		if !a.lost() {
			a = p.receive()
		}
	}
}

func (p *pubsubConn) receive() arrival {
	reply, err := p.ps.Receive(noRedial(context.Background()))
	return arrival{reply, err}
}

// lost reports whether nothing arrives any more.
func (a arrival) lost() bool {
	_, refused := serverError(a.err)
	return a.err != nil && !refused
}

// Send implements [pubsub.Conn].
func (p *pubsubConn) Send(ctx context.Context, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, driver.DefaultTimeout)
	defer cancel()
	err, left := aside.Call(ctx, p.closed, func() error { return p.send(noRedial(ctx), args[0], args[1:]) }, nil)
	if left != nil {
		return fmt.Errorf("goredis: not sent yet: %w", left)
	}
	if err != nil {
		return p.conn.failure(ctx, err)
	}
	return nil
}

func (p *pubsubConn) send(ctx context.Context, name string, channels []string) error {
	switch name {
	case "SUBSCRIBE":
		return p.ps.Subscribe(ctx, channels...)
	case "UNSUBSCRIBE":
		return p.ps.Unsubscribe(ctx, channels...)
	case "PING":
		return p.ps.Ping(ctx)
	}
	return fmt.Errorf("goredis: %s on a pub/sub connection: %w", name, driver.ErrUnsupported)
}

// Receive implements [pubsub.Conn].
func (p *pubsubConn) Receive(ctx context.Context) (pubsub.Event, error) {
	var a arrival
	select {
	case a = <-p.arrivals:
	case <-p.closed:
		a.err = driver.ErrClosed
	case <-ctx.Done():
		a.err = ctx.Err()
	}
	if a.err != nil {
		return pubsub.Event{}, p.conn.failure(ctx, a.err)
	}
	switch reply := a.reply.(type) {
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

// Close implements [pubsub.Conn]. It does not wait for a redis.PubSub that dials.
func (p *pubsubConn) Close() error {
	p.closing.Do(func() {
		close(p.closed)
		go p.ps.Close()
	})
	return nil
}

// noRedial returns a context that has ended but keeps the deadline of ctx.
// go-redis reads and writes with it until that deadline, but does not dial. (Its
// dialer for TLS does not look at the context. A wrapped client that uses it
// connects again in vain: the first error closes the redis.PubSub all the same.)
func noRedial(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
