package rueidis

import (
	"context"
	"errors"
	"fmt"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/netdial"
)

func init() { locker.Register("rueidis", Driver{}) }

var (
	_ driver.Driver    = Driver{}
	_ driver.Connector = (*opener)(nil)
)

// Driver makes connectors that open rueidis clients of their own. It is
// registered as "rueidis".
type Driver struct{}

// OpenConnector implements [driver.Driver]. Unix sockets are supported for a
// single server only, databases other than 0 not for a Cluster.
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	single, cluster := cfg.Mode == driver.ModeSingle, cfg.Mode == driver.ModeCluster
	sentinel := cfg.Mode == driver.ModeSentinel
	negative := cfg.DialTimeout < 0 || cfg.Timeout < 0
	cfg = cfg.WithDefaults()
	fault := ""
	switch {
	case !single && !cluster && !sentinel:
		fault = "this mode"
	case cfg.Network != "tcp" && !(cfg.Network == "unix" && single):
		fault = fmt.Sprintf("network %q in mode %v", cfg.Network, cfg.Mode)
	case cluster && cfg.DB != 0:
		fault = "a database other than 0 in a Cluster"
	case len(cfg.Addrs) == 0, single && len(cfg.Addrs) > 1:
		fault = fmt.Sprintf("%d addresses in mode %v", len(cfg.Addrs), cfg.Mode)
	case sentinel && cfg.Master == "":
		fault = "Sentinels without the name of the master"
	case negative:
		fault = "a negative timeout"
	}
	if fault != "" {
		return nil, fmt.Errorf("rueidis: %s: %w", fault, driver.ErrUnsupported)
	}
	return &opener{func() driver.Config { return cfg }}, nil
}

// An opener makes a rueidis client by each Connect.
type opener struct {
	config func() driver.Config // a function, so that no way of printing shows a password
}

func (o *opener) Driver() driver.Driver { return Driver{} }

// Connect makes the client, which connects at once: an error means that there
// is no such server now, or that it refuses the credentials.
func (o *opener) Connect(ctx context.Context) (driver.Conn, error) {
	fail := func(err error) (driver.Conn, error) {
		return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", err))
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	cfg := o.config()
	dialer := netdial.New(cfg)
	type made struct {
		client rue.Client
		err    error
	}
	m, err := aside.Call(ctx, nil, func() made { // NewClient has no ctx
		client, err := rue.NewClient(options(cfg, dialer))
		if err == nil && cfg.Mode == driver.ModeCluster && client.Mode() != rue.ClientModeCluster {
			err = errors.New("the server is not part of a Cluster")
		}
		return made{client, err}
	}, func(late made) { discard(late.client) })
	if err == nil && m.err == nil {
		// A call's limit is a last resort: a connection that is silent for too
		// long ends its calls much earlier, and one that is slow, with many
		// calls in its pipeline, is not dead.
		return newConn(m.client, dialer, 4*(cfg.DialTimeout+cfg.Timeout)), nil
	}
	dialer.Close() // if NewClient still runs, it fails now or is just done
	discard(m.client)
	if err == nil {
		err = ownEnd(ctx, dialer.Redact(refused(m.err)))
	}
	return fail(err)
}

// discard closes what NewClient returned: a client that could not connect may be
// returned too.
func discard(client rue.Client) {
	if client != nil {
		client.Close()
	}
}
