package redigo

import (
	"context"
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
// It does no I/O. It refuses what [driver.Config.Check] does, and a Cluster.
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	if cfg.Mode == driver.ModeCluster {
		return nil, fmt.Errorf("redigo: no Cluster with this client, take the driver goredis or rueidis: %w", driver.ErrUnsupported)
	}
	if err := cfg.Check(driver.ModeSingle, driver.ModeSentinel); err != nil {
		return nil, fmt.Errorf("redigo: %w", err)
	}
	return connector(func() (*conn, error) { return openPool(cfg), nil }), nil
}

// Wrap returns a Connector that sends commands through the application's pool,
// which stays open when the Conn is closed and may be used for anything else
// meanwhile. The package comment says which settings of the pool matter. With a
// nil pool, or one without Dial and DialContext, Connect returns an error that
// matches [driver.ErrUnsupported].
func Wrap(pool *redis.Pool) driver.Connector {
	return connector(func() (*conn, error) { return wrapPool(pool) })
}

// connector returns a connector whose Connect does no I/O: connections are made by the first calls
// that need them.
func connector(open func() (*conn, error)) driver.Connector {
	return driver.NewConnector(Driver{}, func(context.Context) (driver.Conn, error) {
		c, err := open()
		if err != nil {
			return nil, err
		}
		c.life, c.end = context.WithCancel(context.Background())
		c.underway = map[*call]struct{}{}
		return c, nil
	})
}

var (
	_ driver.Driver     = Driver{}
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)
