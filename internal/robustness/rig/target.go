package rig

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
)

// A Target is what a worker process needs to know to use locks on a rig. It goes to
// the worker as JSON.
type Target struct {
	Kind Kind `json:"kind"`
	// Nodes has one entry, or on a [Quorum] one for each server.
	Nodes []Node `json:"nodes"`
	// Lines has where the worker's line to a server begins, by the server's address, where
	// servers and Sentinels themselves say where they are: on a [Sentinel] or [Cluster].
	Lines map[string]string `json:"lines,omitempty"`
}

// A Node is what one connector is opened with.
type Node struct {
	Driver string `json:"driver"`
	DSN    string `json:"dsn"`
}

// Drivers returns the distinct drivers of a target, sorted.
func (t Target) Drivers() []string {
	var names []string
	for _, n := range t.Nodes {
		names = append(names, n.Driver)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Target makes a worker's lines to the servers and returns what to tell it. The
// worker's name is one that no other has had. Several drivers are used in turn for the
// nodes of a [Quorum]; on the other kinds there is one.
func (r *Rig) Target(worker string, drivers ...string) (Target, error) {
	t := Target{Kind: r.Kind}
	switch {
	case len(drivers) == 0:
		return Target{}, fmt.Errorf("rig: there is no driver for the worker %q", worker)
	case len(drivers) > 1 && r.Kind != Quorum:
		return Target{}, fmt.Errorf("rig: %d drivers for the worker %q: several are for a %s only", len(drivers), worker, Quorum)
	}
	begins, err := r.lines.lay(worker, r.ends())
	if err != nil {
		return Target{}, err
	}
	switch r.Kind {
	case Sentinel, Cluster:
		var where string
		if r.Kind == Sentinel {
			where = dsn(r.Sentinels.Addrs()...) + "?mode=sentinel&master=" + servertest.MasterName
		} else {
			where = dsn(r.Nodes.Addrs()...) + "?mode=cluster"
		}
		t.Nodes, t.Lines = []Node{{drivers[0], where}}, map[string]string{}
		for i, s := range r.Servers {
			t.Lines[s.Addr] = begins[i]
		}
		return t, nil
	}
	for i, addr := range begins {
		t.Nodes = append(t.Nodes, Node{drivers[i%len(drivers)], dsn(addr)})
	}
	return t, nil
}

func dsn(addrs ...string) string { return "redis://" + strings.Join(addrs, ",") }

// ends returns where the lines of each worker lead.
func (r *Rig) ends() []wire.Backend {
	if r.Kind == Single {
		return []wire.Backend{func(ctx context.Context) (net.Conn, error) {
			return wire.TCP(r.Primary().Addr)(ctx)
		}}
	}
	var all []wire.Backend
	for _, s := range r.Servers {
		all = append(all, wire.TCP(s.Addr))
	}
	return all
}

// Lines returns the lines of a worker that has a [Target]: one to a [Single], and one to
// each server of the other kinds, in their order. Sentinels are reached without.
func (r *Rig) Lines(worker string) []*wire.Wire { return r.lines.of(worker) }

// Release closes the lines of a worker that has ended.
func (r *Rig) Release(worker string) error { return r.lines.remove(worker) }
