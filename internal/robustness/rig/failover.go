package rig

import (
	"github.com/golocker/golocker/internal/servertest"
)

// How long, in milliseconds, a server does not answer before it is taken for dead.
const (
	whenAllowed = "1500"
	// Otherwise it is longer than any round, or at least than a machine that is busy keeps
	// servers waiting: a failover that nobody has asked for would be a fault that nobody
	// knows of.
	otherwise          = "3600000"
	otherwiseOnCluster = "15000"
)

const (
	downAfter   = "down-after-milliseconds"
	nodeTimeout = "cluster-node-timeout"
	noFailover  = "cluster-replica-no-failover"
)

// AllowFailover lets replicas on a [Sentinel] or [Cluster] take the place of masters that do
// not answer, or ends that. At first they may not. All servers have to run.
func (r *Rig) AllowFailover(allow bool) error {
	if r.Kind == Sentinel {
		silence := otherwise
		if allow {
			silence = whenAllowed
		}
		for _, s := range r.Sentinels.Sentinels {
			if _, err := s.Do("SENTINEL", "SET", servertest.MasterName, downAfter, silence); err != nil {
				return err
			}
		}
		return nil
	}
	set := []string{"CONFIG", "SET", noFailover, "yes", nodeTimeout, otherwiseOnCluster}
	if allow {
		set = []string{"CONFIG", "SET", noFailover, "no", nodeTimeout, whenAllowed}
	}
	for _, s := range r.Servers {
		if _, err := s.Do(set...); err != nil {
			return err
		}
	}
	return nil
}
