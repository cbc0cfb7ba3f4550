package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/netdial"
)

func init() { locker.Register("goredis", Driver{}) }

// Driver is the driver that this package registers as "goredis". It needs no
// settings of its own.
type Driver struct{}

var _ driver.Driver = Driver{}

// OpenConnector implements [driver.Driver]. Each Conn of the connector has a
// client of its own, which its Close closes.
//
// The error matches [driver.ErrUnsupported] for a mode that this package does
// not know, for a unix socket in another mode than [driver.ModeSingle], and for a
// Cluster with a database.
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	switch {
	case cfg.Mode < driver.ModeSingle || cfg.Mode > driver.ModeCluster:
		return nil, fmt.Errorf("goredis: mode %d: %w", cfg.Mode, driver.ErrUnsupported)
	case cfg.Network == "unix" && cfg.Mode != driver.ModeSingle:
		return nil, fmt.Errorf("goredis: mode %v over a unix socket: %w", cfg.Mode, driver.ErrUnsupported)
	case cfg.Mode == driver.ModeCluster && cfg.DB != 0:
		return nil, fmt.Errorf("goredis: database %d of a Cluster, which has none but 0 (leave it out): %w", cfg.DB, driver.ErrUnsupported)
	case len(cfg.Addrs) == 0:
		return nil, errors.New("goredis: a Config without address")
	case cfg.Mode == driver.ModeSingle && len(cfg.Addrs) > 1:
		return nil, fmt.Errorf("goredis: mode single has one address, not %d (use mode sentinel or cluster)", len(cfg.Addrs))
	case cfg.Mode == driver.ModeSentinel && cfg.Master == "":
		return nil, errors.New("goredis: Sentinel needs the master's name in the Config")
	}
	cfg = cfg.WithDefaults()
	return &connector{func() (driver.Conn, error) { return openConn(cfg), nil }}, nil
}

// A connector has what it connects to in a function so that no way of printing
// it shows a password.
type connector struct {
	connect func() (driver.Conn, error)
}

var _ driver.Connector = (*connector)(nil)

// Driver implements [driver.Connector].
func (*connector) Driver() driver.Driver { return Driver{} }

// Connect implements [driver.Connector]. It does no I/O.
func (c *connector) Connect(context.Context) (driver.Conn, error) { return c.connect() }

func openConn(cfg driver.Config) driver.Conn {
	dialer := netdial.New(cfg)
	options := options(cfg, func(ctx context.Context, _, addr string) (net.Conn, error) {
		return dialer.Dial(ctx, cfg.Network, addr)
	})
	var client redis.UniversalClient
	switch cfg.Mode {
	case driver.ModeCluster:
		client = redis.NewClusterClient(options.Cluster())
	case driver.ModeSentinel:
		client = redis.NewFailoverClient(options.Failover())
	default:
		client = redis.NewClient(options.Simple())
	}
	return newConn(cfg.Mode, client, dialer, client.Close)
}

func options(cfg driver.Config, dial driver.DialFunc) *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:            cfg.Addrs,
		MasterName:       cfg.Master,
		SentinelUsername: cfg.SentinelUsername,
		SentinelPassword: passwordOf(cfg.SentinelUsername, cfg.SentinelPassword),
		Username:         cfg.Username,
		Password:         passwordOf(cfg.Username, cfg.Password),
		DB:               cfg.DB,
		ClientName:       cfg.ClientName,

		Dialer:                dial, // has Network and TLS in it
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

// passwordOf returns what is given as a user's password. Without one go-redis would
// not authenticate at all, and a user who has none is let in with any.
func passwordOf(username string, password driver.Secret) string {
	if username != "" && password == "" {
		return "any"
	}
	return string(password)
}
