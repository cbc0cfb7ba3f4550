// Package rig starts the servers that faults are injected into, of each kind that
// locks are used on, and tells worker processes how to reach them. It takes Redis 7.0
// or later, or Valkey.
package rig

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golocker/golocker/internal/servertest"
)

// A Kind is a kind of deployment.
type Kind string

// The kinds of deployments.
const (
	Single   Kind = "single"   // one server
	Quorum   Kind = "quorum"   // five servers that know nothing of each other
	Sentinel Kind = "sentinel" // a primary and a replica, watched by three Sentinels
	Cluster  Kind = "cluster"  // three masters with a replica each
)

// Kinds are all kinds.
var Kinds = []Kind{Single, Quorum, Sentinel, Cluster}

// Needs is what a fault has to have of a rig beyond what every rig has.
type Needs struct {
	// Clock is true if the wall clock of the first server, on a Single or a Quorum, has to
	// be one that can be set. That takes a C compiler; without one the test is skipped.
	Clock bool
	// Standby is true if a Single server has to have a replica that can take its place.
	Standby bool
}

// With returns what both need.
func (n Needs) With(m Needs) Needs {
	return Needs{Clock: n.Clock || m.Clock, Standby: n.Standby || m.Standby}
}

// A Rig is the running servers of one deployment. Its methods may be called from any
// goroutine.
type Rig struct {
	Kind Kind
	// Servers are those that keep data, replicas included.
	Servers []*servertest.Server
	// Sentinels is what watches the servers of a Sentinel rig, and Nodes the servers of a
	// Cluster; else they are nil.
	Sentinels *servertest.SentinelNodes
	Nodes     *servertest.ClusterNodes
	// Clock is that of the first server, nil unless it was needed.
	Clock *servertest.Clock

	primary atomic.Pointer[servertest.Server] // of a Single: where its lines end
	lines   *lines
}

// startTimeout is how long a rig may take to be complete.
const startTimeout = time.Minute

// Start starts a rig. It is stopped when the test ends.
func Start(tb testing.TB, kind Kind, needs Needs) *Rig {
	tb.Helper()
	r := &Rig{Kind: kind}
	opts := []servertest.Option{servertest.Config("enable-debug-command", "local")}
	first := slices.Clone(opts)
	if needs.Clock {
		r.Clock = servertest.NewClock(tb)
		first = append(first, r.Clock.Option())
	}
	ctx, cancel := context.WithTimeout(tb.Context(), startTimeout)
	defer cancel()
	switch kind {
	case Single:
		primary := servertest.Single(tb, first...)
		r.Servers = []*servertest.Server{primary}
		r.primary.Store(primary)
		if needs.Standby {
			standby := servertest.Single(tb, opts...)
			r.Servers = append(r.Servers, standby)
			if err := Follow(ctx, standby, primary); err != nil {
				tb.Fatal(err)
			}
		}
	case Quorum:
		r.Servers = append(servertest.Servers(tb, 1, first...), servertest.Servers(tb, 4, opts...)...)
	case Sentinel:
		opts = append(opts, servertest.SentinelConfig("sentinel", downAfter, servertest.MasterName, otherwise))
		r.Sentinels = servertest.Sentinel(tb, opts...)
		r.Servers = r.Sentinels.Data
	case Cluster:
		opts = append(opts, servertest.Config(nodeTimeout, otherwiseOnCluster), servertest.Config(noFailover, "yes"))
		r.Nodes = servertest.ReplicatedCluster(tb, 3, opts...)
		r.Servers = r.Nodes.Servers()
	default:
		tb.Fatalf("rig: there is no kind %q, it is one of %v", kind, Kinds)
	}
	r.lines = newLines(tb)
	return r
}

// Follow makes a server the replica of another and returns when it has its data.
func Follow(ctx context.Context, replica, master *servertest.Server) error {
	return servertest.Await(ctx, func() error {
		if err := replica.InfoSays("replication", "master_port:"+master.Port()); err != nil {
			if _, err := replica.Do("REPLICAOF", "127.0.0.1", master.Port()); err != nil {
				return err
			}
		}
		return replica.InfoSays("replication", "master_link_status:up")
	})
}

// Primary returns the server of a [Single] that its workers are led to.
func (r *Rig) Primary() *servertest.Server { return r.primary.Load() }

// Lead leads the workers of a [Single] to another of its servers from now on.
// Connections that are open stay with the server that they were made to.
func (r *Rig) Lead(to *servertest.Server) { r.primary.Store(to) }
