// Package rig starts the servers that faults are injected into, of each kind that
// locks are used on, and tells worker processes how to reach them.
package rig

import (
	"testing"

	"github.com/golocker/golocker/conformance/wire"
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
	// Clock is true if the wall clock of the first server has to be one that can be set.
	// That takes a C compiler; without one the test is skipped.
	Clock bool
}

// With returns what both need.
func (n Needs) With(m Needs) Needs { return Needs{Clock: n.Clock || m.Clock} }

// A Rig is the running servers of one deployment. Its methods may be called from any
// goroutine.
type Rig struct {
	Kind Kind
	// Servers are those that keep data. Sentinels are not among them.
	Servers []*servertest.Server
	// Clock is that of the first server, nil unless it was needed.
	Clock *servertest.Clock

	tb testing.TB
	*lines
}

// Start starts a rig. It is stopped when the test ends.
func Start(tb testing.TB, kind Kind, needs Needs) *Rig {
	tb.Helper()
	r := &Rig{Kind: kind, tb: tb, lines: newLines(tb)}
	var first []servertest.Option
	if needs.Clock {
		r.Clock = servertest.NewClock(tb)
		first = append(first, r.Clock.Option())
	}
	switch kind {
	case Single:
		r.Servers = []*servertest.Server{servertest.Single(tb, first...)}
	case Quorum:
		r.Servers = append([]*servertest.Server{servertest.Single(tb, first...)}, servertest.Servers(tb, 4)...)
	default:
		tb.Fatalf("rig: there is no kind %q, it is one of %v", kind, Kinds)
	}
	return r
}

// Lines returns the lines of a worker that has a [Target], one to each server that it
// was told of, in the order of the servers. On kinds other than Single and Quorum the
// servers themselves say where they are, and there are none.
func (r *Rig) Lines(worker string) []*wire.Wire { return r.of(worker) }
