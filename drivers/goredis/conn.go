package goredis

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/netdial"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

var (
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)

// A conn is a go-redis client, wrapped or its own.
type conn struct {
	mode   driver.Mode
	client redis.UniversalClient
	dialer *netdial.Dialer // of its own client; nil if that is a wrapped one

	// distrust retires all present connections of a client of its own, after a server that is
	// not in a Cluster has answered READONLY, or a reply was not read to its end.
	distrust func()

	// leave retires the connections to one address; nil if the client is a wrapped one.
	leave func(addr string)

	life  context.Context // ends with Close
	end   context.CancelFunc
	crew  aside.Crew // makes the calls
	subs  pubsub.Group
	nodes topology
}

// newConn returns a conn whose Close closes client and dialer, unless dialer is nil: then the
// client is a wrapped one.
func newConn(mode driver.Mode, client redis.UniversalClient, dialer *netdial.Dialer) *conn {
	c := &conn{mode: mode, client: client, dialer: dialer, distrust: func() {}}
	c.nodes.cluster, _ = client.(*redis.ClusterClient)
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// ready returns an error if the Conn is closed or ctx has ended.
func (c *conn) ready(ctx context.Context) error {
	err := ctx.Err()
	if c.life.Err() != nil {
		err = driver.ErrClosed
	}
	if err != nil {
		return driver.NotSent(fmt.Errorf("goredis: %w", err))
	}
	return nil
}

// Describe implements [driver.Describer].
func (c *conn) Describe(ctx context.Context) (driver.Topology, error) {
	if err := c.ready(ctx); err != nil {
		return driver.Topology{Mode: c.mode}, err
	}
	return driver.DescribeByInfo(ctx, c, c.mode)
}

// closePatience is how long Close waits for a Sentinel that says nothing.
const closePatience = 100 * time.Millisecond

// Close implements [driver.Conn]. It closes the dialer last. Otherwise go-redis' goroutine that listens to a
// Sentinel would pause before its next try, and so outlive Close. But one that asks a Sentinel that says nothing
// holds a mutex that go-redis needs to close the client, until its connection ends.
func (c *conn) Close() error {
	c.end()
	c.crew.Close()
	err := c.subs.Close()
	if c.dialer != nil {
		hung := time.AfterFunc(closePatience, c.dialer.Close)
		_ = c.client.Close() // what it says is of connections that are closed
		hung.Stop()
		c.dialer.Close()
		c.nodes.close() // not for long, without connections
	}
	return err
}
