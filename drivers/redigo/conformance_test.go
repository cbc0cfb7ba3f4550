package redigo_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/conformance"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker/driver"
)

var capabilities = conformance.Capabilities{Batcher: true, Subscriber: true, Listener: true, Describer: true}

func TestConformance(t *testing.T) {
	conformance.Test(t, conformance.Harness{Open: redigo.Driver{}.OpenConnector, Capabilities: capabilities})
}

// The suite sees a wrapped pool as an opened one if somebody closes the pool.
func TestConformanceWrapped(t *testing.T) {
	conformance.Test(t, conformance.Harness{Open: openWrapped, Capabilities: capabilities, Known: fixedTimeouts})
}

// fixedTimeouts are the cases that ask for timeouts that a pool does not have.
var fixedTimeouts = []conformance.Deviation{
	{Case: "Config/Timeout/Short", Link: timeoutsOfPool, Why: "a pool does not tell its timeouts; wrapped, a reply has 5 seconds"},
	{Case: "Config/DialTimeout/Short", Link: timeoutsOfPool, Why: "a pool does not tell its timeouts; wrapped, a connection has 5 seconds"},
	{Case: "Config/DialTimeout/Handshake", Link: timeoutsOfPool, Why: "a pool does not tell its timeouts; wrapped, a connection has 5 seconds"},
}

const timeoutsOfPool = "https://pkg.go.dev/github.com/golocker/golocker/drivers/redigo#hdr-Timeouts"

func openWrapped(cfg driver.Config) (driver.Connector, error) {
	if cfg.Mode != driver.ModeSingle || cfg.TLS != nil {
		return nil, driver.ErrUnsupported
	}
	return driver.NewConnector(redigo.Driver{}, func(ctx context.Context) (driver.Conn, error) {
		pool := newPool(cfg)
		conn, err := redigo.Wrap(pool).Connect(ctx)
		if err != nil {
			return nil, err
		}
		return &poolConn{conn.(fullConn), pool}, nil
	}), nil
}

// newPool builds a pool as an application would, without any timeouts.
func newPool(cfg driver.Config) *redis.Pool {
	return &redis.Pool{
		MaxIdle:   8,
		MaxActive: cfg.PoolSize,
		Wait:      true,
		DialContext: func(ctx context.Context) (redis.Conn, error) {
			options := []redis.DialOption{
				redis.DialUsername(cfg.Username),
				redis.DialPassword(string(cfg.Password)),
				redis.DialDatabase(cfg.DB),
				redis.DialClientName(cfg.ClientName),
			}
			if cfg.Dial != nil {
				options = append(options, redis.DialContextFunc(cfg.Dial))
			}
			return redis.DialContext(ctx, cfg.Network, cfg.Addrs[0], options...)
		},
		TestOnBorrowContext: func(ctx context.Context, rc redis.Conn, lastUsed time.Time) error {
			if time.Since(lastUsed) < time.Second {
				return nil
			}
			_, err := redis.DoContext(rc, ctx, "PING")
			return err
		},
	}
}

type fullConn interface {
	driver.Conn
	driver.Batcher
	driver.Subscriber
	driver.Describer
}

type poolConn struct {
	fullConn
	pool *redis.Pool
}

func (c *poolConn) Close() error {
	err := c.fullConn.Close()
	_ = c.pool.Close()
	return err
}
