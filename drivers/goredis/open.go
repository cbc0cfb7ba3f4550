package goredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

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
// It refuses what [driver.Config.Check] does.
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	if err := cfg.Check(driver.ModeSingle, driver.ModeSentinel, driver.ModeCluster); err != nil {
		return nil, fmt.Errorf("goredis: %w", err)
	}
	cfg = cfg.WithDefaults()
	// Connect does no I/O: connections are made by the first calls that need them.
	return driver.NewConnector(Driver{}, func(context.Context) (driver.Conn, error) { return openConn(cfg), nil }), nil
}

// masterLifetime is how long a connection is used where there are Sentinels. go-redis asks them for the master
// only when it connects, and hears of another one by a message, which can get lost: it would stay
// with a former master for as long as that can be reached.
const masterLifetime = 10 * time.Second

func openConn(cfg driver.Config) driver.Conn {
	dialer := netdial.New(cfg)
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		host, err := withHost(addr, cfg.Addrs)
		if err != nil {
			return nil, &netdial.Error{Addr: addr, Err: err}
		}
		return dialer.Dial(ctx, cfg.Network, host)
	}
	hosts := newHosts(dial, cfg.DialTimeout, cfg.Timeout)
	options := options(cfg, hosts.Dial)
	var client redis.UniversalClient
	switch cfg.Mode {
	case driver.ModeCluster:
		client = redis.NewClusterClient(options.Cluster())
	case driver.ModeSentinel:
		options.ConnMaxLifetime = masterLifetime
		client = redis.NewFailoverClient(options.Failover())
	default:
		client = redis.NewClient(options.Simple())
	}
	c := newConn(cfg.Mode, client, dialer)
	c.distrust, c.leave = hosts.distrust, hosts.leave
	return c
}

// withHost returns addr with a host. Where the nodes of a Cluster tell hostnames, one that has none tells "?",
// which no resolver need be asked for. A node that does not know its own address tells no host: it is at the address
// where it was asked, which go-redis does not pass on, but which must be one of seeds. go-redis would dial this
// machine instead, where another server may be, which would take the locks.
func withHost(addr string, seeds []string) (string, error) {
	if strings.HasPrefix(addr, "?:") {
		return "", errors.New("a node of the Cluster has no hostname, which is what its nodes are to tell: set its cluster-announce-hostname, or cluster-preferred-endpoint-type to ip")
	}
	port, missing := strings.CutPrefix(addr, ":")
	if !missing {
		return addr, nil
	}
	host, _, _ := net.SplitHostPort(seeds[0]) // a seed that is no address leads to no node
	for _, seed := range seeds[1:] {
		if other, _, _ := net.SplitHostPort(seed); other != host {
			return "", errors.New("a node of the Cluster does not tell its host, and which of several was asked is not known: set its cluster-announce-ip")
		}
	}
	return net.JoinHostPort(host, port), nil
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
