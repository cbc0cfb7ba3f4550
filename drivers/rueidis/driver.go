package rueidis

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/netdial"
)

func init() { locker.Register("rueidis", Driver{}) }

var _ driver.Driver = Driver{}

// Driver makes connectors that open rueidis clients of their own. It is
// registered as "rueidis".
type Driver struct{}

// OpenConnector implements [driver.Driver]. Each Connect of the connector makes a client. It
// refuses what [driver.Config.Check] does.
func (Driver) OpenConnector(cfg driver.Config) (driver.Connector, error) {
	if err := cfg.Check(driver.ModeSingle, driver.ModeSentinel, driver.ModeCluster); err != nil {
		return nil, fmt.Errorf("rueidis: %w", err)
	}
	cfg = cfg.WithDefaults()
	return driver.NewConnector(Driver{}, func(ctx context.Context) (driver.Conn, error) { return open(ctx, cfg) }), nil
}

// open makes a client, which connects at once: an error means that there is no such server
// now, or that it refuses the credentials.
func open(ctx context.Context, cfg driver.Config) (driver.Conn, error) {
	dialer := netdial.New(cfg)
	client, err := aside.Open(ctx, nil, func() (rue.Client, error) { // NewClient has no ctx
		client, err := rue.NewClient(options(cfg, dialer))
		if err == nil && cfg.Mode == driver.ModeCluster && client.Mode() != rue.ClientModeCluster {
			err = whyNoCluster(client)
		}
		if err != nil && client != nil { // NewClient may also return one that could not connect
			dialer.Close()
			client.Close()
		}
		return client, err
	}, rue.Client.Close)
	if err == nil {
		// A call's limit is a last resort: a connection that is silent for too
		// long ends its calls much earlier, and one that is slow, with many
		// calls in its pipeline, is not dead.
		return newConn(client, dialer, 4*(cfg.DialTimeout+cfg.Timeout)), nil
	}
	dialer.Close() // if NewClient still runs, it fails now or is just done
	if strings.Contains(err.Error(), "No such master with that name") {
		err = errors.New("no Sentinel knows the master's name") // no server has said anything
	} else {
		err = ownEnd(ctx, dialer.Redact(refused(err)))
	}
	return nil, driver.NotSent(fmt.Errorf("rueidis: connect: %w", err))
}

// whyNoCluster tells why rueidis has made a client of a single server from the one address of a
// Cluster: it also does so where the user may not ask that server for the nodes.
func whyNoCluster(client rue.Client) error {
	slots := client.Do(context.Background(), client.B().ClusterSlots().Build())
	return cmp.Or(slots.Error(), errors.New("the server has become part of a Cluster"))
}
