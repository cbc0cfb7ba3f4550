package driver

import (
	"context"
	"errors"
	"strconv"
	"strings"
)

// A Describer is a Conn that can tell what it is connected to.
//
// Without it the core assumes the least: that PUBLISH may count only the
// subscribers of one node, and that the server's identity is unknown.
type Describer interface {
	// Describe asks the server, with at most one round trip per field. What the server never
	// tells (a managed service without INFO, an ACL) is left at its zero value and is no error;
	// that the server does not tell just now (BUSY, LOADING, a refused AUTH, too many clients)
	// is an error. The Mode is returned even with an error. ModeCluster is then believed; with
	// any other Mode the error leaves open what the deployment is, and Describe is called again
	// later.
	Describe(ctx context.Context) (Topology, error)
}

// DescribeByInfo is a Describe for a Conn of the given mode: it asks for the run id
// by INFO server, which for a Cluster would be that of any node and is left out.
func DescribeByInfo(ctx context.Context, c Conn, mode Mode) (Topology, error) {
	t := Topology{Mode: mode}
	if mode == ModeCluster {
		return t, NotSent(ctx.Err())
	}
	info, err := c.Do(ctx, Command{Args: []string{"INFO", "server"}})
	if neverTells(err) {
		return t, nil
	}
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			t.RunID = strings.TrimSpace(id)
		}
	}
	return t, err
}

// neverTells reports whether a command was refused for good. A caller that takes a passing
// refusal for a lasting one may count one server as two.
func neverTells(err error) bool {
	refusal, ok := errors.AsType[*ServerError](err)
	if !ok || OutcomeOf(err) != OutcomeReplied { // else the connection was refused, as by AUTH
		return false
	}
	switch refusal.Code {
	case "BUSY", "UNKILLABLE", "LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "NOAUTH", "WRONGPASS":
		return false
	}
	return !strings.Contains(refusal.Message, "max number of clients")
}

// A Topology is what a Describer knows.
type Topology struct {
	// Mode is how the deployment is addressed.
	Mode Mode
	// RunID is the run id of the server (INFO server), which differs between
	// any two server processes. It is empty for a Cluster and where the server
	// does not tell.
	RunID string
}

// A Mode is a kind of deployment. The zero Mode is one server.
type Mode int

const (
	// ModeSingle is one server, or a name that always leads to the master.
	ModeSingle Mode = iota
	// ModeSentinel is a master watched by Sentinels, which are asked for its address.
	ModeSentinel
	// ModeCluster is a Redis or Valkey Cluster.
	ModeCluster
)

// String returns "single", "sentinel" or "cluster"; for any other Mode its number.
func (m Mode) String() string {
	switch m {
	case ModeSentinel:
		return "sentinel"
	case ModeCluster:
		return "cluster"
	case ModeSingle:
		return "single"
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}
