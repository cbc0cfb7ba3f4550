package rig

import (
	"context"
	"fmt"
	"net"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
)

// drivers are those that a [Node] may name.
var drivers = map[string]driver.Driver{
	"goredis": goredis.Driver{}, "redigo": redigo.Driver{}, "rueidis": rueidis.Driver{},
}

// Connectors returns one for each node, which go through the worker's lines.
func (t Target) Connectors() ([]driver.Connector, error) {
	var all []driver.Connector
	for _, n := range t.Nodes {
		d, ok := drivers[n.Driver]
		if !ok {
			return nil, fmt.Errorf("rig: there is no driver %q", n.Driver)
		}
		cfg, err := driver.ParseDSN(n.DSN)
		if err != nil {
			return nil, err
		}
		if t.Lines != nil {
			cfg.Dial = t.dial
		}
		c, err := d.OpenConnector(cfg)
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// dial leads to the line to a server where others would connect to the server. A Sentinel
// has none.
func (t Target) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if begin, ok := t.Lines[addr]; ok {
		addr = begin
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}
