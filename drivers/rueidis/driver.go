package rueidis

import (
	"context"
	"errors"
	"fmt"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

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
	case cfg.DialTimeout < 0 || cfg.Timeout < 0:
		fault = "a negative timeout"
	}
	if fault != "" {
		return nil, fmt.Errorf("rueidis: %s: %w", fault, driver.ErrUnsupported)
	}
	return &opener{cfg: &cfg}, nil
}

// An opener makes a rueidis client by each Connect. It keeps the Config behind
// a pointer so that printing it shows no password.
type opener struct{ cfg *driver.Config }

func (o *opener) Driver() driver.Driver { return Driver{} }

// Connect makes the client, which connects at once: an error means that there
// is no such server now, or that it refuses the credentials.
func (o *opener) Connect(ctx context.Context) (driver.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", err))
	}
	type outcome struct {
		client rue.Client
		err    error
	}
	d := newDialer(o.cfg)
	made := make(chan outcome, 1)
	go func() { // NewClient has no ctx
		client, err := rue.NewClient(options(o.cfg, d))
		if err == nil && o.cfg.Mode == driver.ModeCluster && client.Mode() != rue.ClientModeCluster {
			err = errors.New("the server is not part of a Cluster")
		}
		if err != nil {
			d.end()
			if client != nil { // a single client is returned even if it cannot connect
				client.Close()
			}
		}
		made <- outcome{client, err}
	}()
	select {
	case m := <-made:
		if m.err != nil {
			return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", ownEnd(ctx, d.redact(m.err))))
		}
		return newConn(m.client, d, d.limit()), nil
	case <-ctx.Done():
		d.end() // NewClient fails now, unless it is just done
		go func() {
			if m := <-made; m.err == nil {
				m.client.Close()
			}
		}()
		return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", ctx.Err()))
	}
}
