package worker

import (
	"errors"

	"github.com/golocker/golocker/internal/robustness/rig"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// open returns a client on a rig. The config is for a quorum.
func open(target rig.Target, quorum redlock.Config, opts ...locker.ClientOption) (*locker.Client, error) {
	nodes, err := target.Connectors()
	switch {
	case err != nil:
		return nil, err
	case len(nodes) == 0:
		return nil, errors.New("worker: the target has no nodes")
	case target.Kind == rig.Quorum:
		return redlock.New(nodes, append(opts, quorum)...)
	}
	return locker.New(nodes[0], opts...)
}
