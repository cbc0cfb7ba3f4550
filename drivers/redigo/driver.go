package redigo

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func init() { locker.Register("redigo", Driver{}) }

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
	case cfg.Mode == driver.ModeSingle && len(cfg.Addrs) > 1:
		return nil, fmt.Errorf("redigo: mode single has one address, not %d (use mode sentinel)", len(cfg.Addrs))
	case cfg.Mode == driver.ModeSentinel && cfg.Master == "":
		return nil, errors.New("redigo: Sentinel needs the master's name in the Config")
	}
	return &connector{func() (*conn, error) { return openPool(cfg), nil }}, nil
}

// Wrap returns a Connector that sends commands through the application's pool,
// which stays open when the Conn is closed and may be used for anything else
// meanwhile. The package comment says which settings of the pool matter. With a
// nil pool, or one without Dial and DialContext, Connect returns an error that
// matches [driver.ErrUnsupported].
func Wrap(pool *redis.Pool) driver.Connector {
	return &connector{func() (*conn, error) { return wrapPool(pool) }}
}

// A connector holds no more than a function, so that no way of printing shows a
// password.
type connector struct{ connect func() (*conn, error) }

// Connect returns a Conn without any I/O: connections are made by the first
// calls that need them.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("redigo: connect: %w", err))
	}
	conn, err := c.connect()
	if err != nil {
		return nil, err
	}
	conn.life, conn.end = context.WithCancel(context.Background())
	return conn, nil
}

// Driver returns Driver{}.
func (*connector) Driver() driver.Driver { return Driver{} }

func (*connector) String() string { return "redigo.Connector" }

var (
	_ driver.Driver     = Driver{}
	_ driver.Connector  = (*connector)(nil)
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)
