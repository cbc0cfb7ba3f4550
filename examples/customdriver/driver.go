// Package customdriver is a complete driver for golocker on the standard library
// alone. It is the model for authors of a driver and the example of
// docs/writing-a-driver.md, which walks through it; applications use one of the
// drivers beside the core.
//
//	resp.go     the protocol: RESP2, with limits
//	conn.go     one network connection: dialing, deadlines, one exchange
//	pool.go     the connections of one Conn, and what their failures mean
//	driver.go   the contract: Driver, Connector, Conn, Batcher, Describer
//	pubsub.go   the contract: Subscriber
//
// It supports:
//
//	mode            single
//	network         tcp, unix, TLS
//	settings        user, password, database, client name, timeouts, pool size
//	Batcher         yes: one pipeline on one connection
//	Subscriber      yes: a connection for each Subscription
//	Describer       yes
//	sends again     never
package customdriver

import (
	"context"
	"fmt"
	"sync"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func init() { locker.Register("customdriver", Driver{}) }

// Driver is the [driver.Driver], registered as "customdriver". Its zero value is
// ready to use.
type Driver struct{}

// OpenConnector returns a Connector for one server. Its error matches
// driver.ErrUnsupported for every other mode and network.
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	if err := cfg.Check(driver.ModeSingle); err != nil {
		return nil, fmt.Errorf("customdriver: %w", err)
	}
	cfg = cfg.WithDefaults()
	// Connect does no I/O: connections are made when they are needed.
	return driver.NewConnector(Driver{}, func(context.Context) (driver.Conn, error) {
		return &client{pool: newPool(cfg), subscriptions: make(map[*subscription]struct{})}, nil
	}), nil
}

// A client is the driver.Conn.
type client struct {
	pool *pool

	mu            sync.Mutex
	subscriptions map[*subscription]struct{}
}

var (
	_ driver.Driver     = Driver{}
	_ driver.Conn       = (*client)(nil)
	_ driver.Batcher    = (*client)(nil)
	_ driver.Subscriber = (*client)(nil)
	_ driver.Describer  = (*client)(nil)
)

func (c *client) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	result := c.pool.do(ctx, []driver.Command{cmd})[0]
	return result.Value, result.Err
}

func (c *client) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	if len(cmds) == 0 {
		return nil
	}
	return c.pool.do(ctx, cmds)
}

func (c *client) Describe(ctx context.Context) (driver.Topology, error) {
	return driver.DescribeByInfo(ctx, c, driver.ModeSingle)
}

func (c *client) Close() error {
	c.pool.close()
	c.unsubscribeAll()
	return nil
}
