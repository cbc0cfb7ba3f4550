package redigo

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// Driver opens pools of its own from a [driver.Config]. It is registered as
// "redigo".
type Driver struct{}

// OpenConnector returns a Connector whose Conns each have a pool of their own.
// It does no I/O. A Config for a Cluster is refused with an error that matches
// [driver.ErrUnsupported].
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	switch {
	case cfg.Mode == driver.ModeCluster:
		return nil, fmt.Errorf("redigo: no Cluster with this client, take the driver goredis or rueidis: %w", driver.ErrUnsupported)
	case len(cfg.Addrs) == 0:
		return nil, errors.New("redigo: no address in the Config")
	case cfg.Mode == driver.ModeSentinel && cfg.Master == "":
		return nil, errors.New("redigo: Sentinel needs the master's name in the Config")
	}
	return &connector{cfg: &cfg}, nil
}

// Wrap returns a Connector that sends commands through the application's pool,
// which stays open when the Conn is closed and may be used for anything else
// meanwhile. The package comment says which settings of the pool matter. With a
// nil pool, Connect returns an error.
func Wrap(pool *redis.Pool) driver.Connector { return &connector{pool: pool} }

// A connector has either a pool or the means to open one.
type connector struct {
	pool *redis.Pool
	cfg  *driver.Config
}

// Connect returns a Conn without any I/O: connections are made by the first
// calls that need them.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("redigo: connect: %w", err))
	}
	if c.cfg == nil && c.pool == nil {
		return nil, errors.New("redigo: Wrap was given a nil *redis.Pool")
	}
	life, end := context.WithCancel(context.Background())
	conn := &conn{
		pool:          c.pool,
		patience:      driver.DefaultTimeout,
		life:          life,
		end:           end,
		links:         map[*link]struct{}{},
		subscriptions: map[*subscription]struct{}{},
	}
	if c.cfg != nil {
		conn.opener = newOpener(*c.cfg, life)
		conn.pool = conn.opener.newPool()
		conn.patience = conn.opener.dialTimeout + conn.opener.timeout
	}
	return conn, nil
}

// Driver returns Driver{}.
func (*connector) Driver() driver.Driver { return Driver{} }

// String keeps package fmt from printing passwords.
func (*connector) String() string { return "redigo.Connector" }

var (
	_ driver.Driver     = Driver{}
	_ driver.Connector  = (*connector)(nil)
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)
