package rig

import (
	"slices"

	"github.com/golocker/golocker/internal/servertest"
)

// A Target is what a worker process needs to know to use locks on a rig. It goes to
// the worker as JSON.
type Target struct {
	Kind Kind `json:"kind"`
	// Nodes has one entry, or on a [Quorum] one for each server.
	Nodes []Node `json:"nodes"`
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
// worker's name is new. Several drivers are used in turn for the nodes of a [Quorum];
// on the other kinds there is one.
func (r *Rig) Target(worker string, drivers ...string) (Target, error) {
	t := Target{Kind: r.Kind}
	addrs, err := r.lay(worker, addrs(r.Servers))
	if err != nil {
		return Target{}, err
	}
	for i, addr := range addrs {
		t.Nodes = append(t.Nodes, Node{drivers[i%len(drivers)], "redis://" + addr})
	}
	return t, nil
}

// Release closes the lines of a worker that has ended.
func (r *Rig) Release(worker string) error { return r.remove(worker) }

func addrs(servers []*servertest.Server) []string {
	var list []string
	for _, s := range servers {
		list = append(list, s.Addr)
	}
	return list
}
