package goredis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/golocker/golocker/locker/driver"
)

// Driver is the driver that this package registers as "goredis". It needs no
// settings of its own.
type Driver struct{}

var _ driver.Driver = Driver{}

// OpenConnector implements [driver.Driver]. Each Conn of the connector has a
// client of its own, which its Close closes.
//
// The error matches [driver.ErrUnsupported] for a mode that this package does
// not know, and for a unix socket in another mode than [driver.ModeSingle].
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	switch {
	case cfg.Mode < driver.ModeSingle || cfg.Mode > driver.ModeCluster:
		return nil, fmt.Errorf("goredis: mode %d: %w", cfg.Mode, driver.ErrUnsupported)
	case cfg.Network == "unix" && cfg.Mode != driver.ModeSingle:
		return nil, fmt.Errorf("goredis: mode %v over a unix socket: %w", cfg.Mode, driver.ErrUnsupported)
	case len(cfg.Addrs) == 0:
		return nil, fmt.Errorf("goredis: a Config without address")
	}
	if cfg.DialTimeout <= 0 {
		cfg.DialTimeout = driver.DefaultDialTimeout
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = driver.DefaultTimeout
	}
	return opened{func() driver.Config { return cfg }}, nil
}

// opened has its Config in a function so that no way of printing it, or what
// holds it, shows a password.
type opened struct{ config func() driver.Config }

var _ driver.Connector = opened{}

// Driver implements [driver.Connector].
func (opened) Driver() driver.Driver { return Driver{} }

// Connect implements [driver.Connector]. It does no I/O.
func (o opened) Connect(context.Context) (driver.Conn, error) {
	cfg := o.config()
	c := newConn(cfg.Mode)
	options := options(cfg, dialer(c.life, cfg))
	switch cfg.Mode {
	case driver.ModeCluster:
		c.client = redis.NewClusterClient(options.Cluster())
	case driver.ModeSentinel:
		c.client = redis.NewFailoverClient(options.Failover())
	default:
		single := options.Simple()
		single.Network = cfg.Network
		c.client = redis.NewClient(single)
	}
	c.closeClient = c.client.Close
	return c, nil
}

func options(cfg driver.Config, dial driver.DialFunc) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:            cfg.Addrs,
		MasterName:       cfg.Master,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: string(cfg.SentinelPassword),
		Username:         cfg.Username,
		Password:         string(cfg.Password),
		DB:               cfg.DB,
		ClientName:       cfg.ClientName,

		Dialer:                dial, // has TLS in it
		DialTimeout:           cfg.DialTimeout,
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		ContextTimeoutEnabled: true,

		// The core tries again, and knows what is safe.
		MaxRetries:    -1,
		DialerRetries: 1,

		// Batches use the same connections as single commands, so that PoolSize
		// is the limit that it says.
		PoolSize:         cfg.PoolSize,
		PipelinePoolSize: -1,

		// RESP2 has all that locks need, and spares go-redis looking for push
		// messages around each command. CLIENT SETINFO and MAINT_NOTIFICATIONS
		// each cost a round trip per connection, and are errors on older servers.
		Protocol:                 2,
		DisableIdentity:          true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

// dialer returns the function that opens all connections. Other than go-redis'
// own it bounds the dialing of pub/sub connections and the TLS handshake by
// DialTimeout, and ends with life.
func dialer(life context.Context, cfg driver.Config) driver.DialFunc {
	dial := cfg.Dial
	if dial == nil {
		dial = (&net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
			Enable: true, Idle: 30 * time.Second, Interval: 5 * time.Second, Count: 3,
		}}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, cfg.DialTimeout)
		defer cancel()
		defer context.AfterFunc(life, cancel)()
		if err := ctx.Err(); err != nil { // for a Dial that does not look: see noRedial
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		nc, err := dial(ctx, network, addr)
		if err == nil && cfg.TLS != nil {
			nc, err = handshake(ctx, nc, cfg.TLS, addr)
		}
		if err != nil && !isDialError(err) {
			err = &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return nc, err
	}
}

func handshake(ctx context.Context, nc net.Conn, cfg *tls.Config, addr string) (net.Conn, error) {
	if cfg.ServerName == "" {
		cfg = cfg.Clone()
		cfg.ServerName, _, _ = net.SplitHostPort(addr) // "" for a unix socket
	}
	tc := tls.Client(nc, cfg)
	if err := tc.HandshakeContext(ctx); err != nil {
		nc.Close()
		return nil, fmt.Errorf("TLS with %s: %w", addr, err)
	}
	return tc, nil
}
