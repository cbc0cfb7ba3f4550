package worker

import (
	"errors"

	// The drivers are opened by name.
	_ "github.com/golocker/golocker/drivers/goredis"
	_ "github.com/golocker/golocker/drivers/redigo"
	_ "github.com/golocker/golocker/drivers/rueidis"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// open returns a client on a rig. The config is for a quorum.
func open(target rig.Target, quorum redlock.Config, opts ...locker.ClientOption) (*locker.Client, error) {
	if len(target.Nodes) == 0 {
		return nil, errors.New("worker: the target has no nodes")
	}
	if target.Kind != rig.Quorum {
		return locker.Open(target.Nodes[0].Driver, target.Nodes[0].DSN, opts...)
	}
	var nodes []driver.Connector
	for _, n := range target.Nodes {
		c, err := locker.OpenConnector(n.Driver, n.DSN)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, c)
	}
	return redlock.New(nodes, append(opts, quorum)...)
}
