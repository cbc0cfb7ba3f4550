//go:build unix

package servertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// SlotCount is the number of hash slots of a Cluster.
const SlotCount = 16384

// ClusterNodes is a running Cluster.
type ClusterNodes struct {
	// Nodes are the masters, at first. Each has an equal share of the slots, in order.
	Nodes []*Server
	// Replicas are the masters' replicas, at first, in the same order; or there are none.
	Replicas []*Server

	tb testing.TB
}

// Cluster starts a Cluster of that many masters without replicas. It returns when every node says
// that the cluster is ok, which takes two seconds at least. When a node is down,
// the others go on serving their slots.
func Cluster(tb testing.TB, masters int, opts ...Option) *ClusterNodes {
	tb.Helper()
	skipCluster(tb)
	c := &ClusterNodes{Nodes: startAll(tb, masters, kindCluster, newSettings(opts)), tb: tb}
	if err := c.join(); err != nil {
		tb.Fatal(err)
	}
	return c
}

// ReplicatedCluster is [Cluster] with one replica for each master. The replica takes its
// master's place when the others have not heard of the master for the cluster-node-timeout,
// by default 15 seconds.
func ReplicatedCluster(tb testing.TB, masters int, opts ...Option) *ClusterNodes {
	tb.Helper()
	skipCluster(tb)
	all := startAll(tb, 2*masters, kindCluster, newSettings(opts))
	c := &ClusterNodes{Nodes: all[:masters], Replicas: all[masters:], tb: tb}
	if err := c.join(); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	for i, replica := range c.Replicas {
		id, err := c.Nodes[i].text("CLUSTER", "MYID")
		if err == nil {
			_, err = replica.Do("CLUSTER", "REPLICATE", id)
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
	if err := c.AwaitComplete(ctx); err != nil {
		tb.Fatal(err)
	}
	return c
}

// skipCluster skips the test where nodes do not know cluster-port.
func skipCluster(tb testing.TB) {
	tb.Helper()
	SkipBefore(tb, 7, 0, "a Cluster")
}

func (s *Server) clusterDirectives() []directive {
	d := []directive{
		{"cluster-enabled", "yes"},
		{"cluster-port", strconv.Itoa(s.busPort)},
		{"cluster-announce-ip", "127.0.0.1"},
		{"cluster-require-full-coverage", "no"},
	}
	if s.settings.certs != nil {
		d = append(d, directive{"tls-cluster", "yes"})
	}
	return d
}

// join shares the slots out, makes the nodes known to each other and waits until
// they agree.
func (c *ClusterNodes) join() error {
	n := len(c.Nodes)
	first := c.Nodes[0]
	for i, node := range c.Servers() {
		// Without an epoch of its own, a node would have to fight for its slots.
		if _, err := node.Do("CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)); err != nil {
			return err
		}
		if i < n {
			from, to := SlotCount*i/n, SlotCount*(i+1)/n-1
			if _, err := node.Do("CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(from), strconv.Itoa(to)); err != nil {
				return err
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	var met time.Time
	return Await(ctx, func() error {
		if time.Since(met) > meetAgain {
			met = time.Now()
			for _, node := range c.Servers()[1:] {
				if _, err := node.Do("CLUSTER", "MEET", "127.0.0.1", first.Port(), strconv.Itoa(first.busPort)); err != nil {
					return err
				}
			}
		}
		return c.ok()
	})
}

// meetAgain is after how long nodes that do not agree yet are made known to each other once more. A node that
// another one has met forgets it where the two have not come to know each other within the cluster-node-timeout,
// or a second if that is shorter. The other one does not learn of that, and does not try again.
const meetAgain = 5 * time.Second

// Servers returns the masters and the replicas.
func (c *ClusterNodes) Servers() []*Server { return slices.Concat(c.Nodes, c.Replicas) }

// AwaitOK waits until every node says that the cluster is ok and complete. Tests
// need it only after they restarted nodes.
func (c *ClusterNodes) AwaitOK() {
	c.tb.Helper()
	if err := c.awaitOK(); err != nil {
		c.tb.Error(err)
	}
}

func (c *ClusterNodes) awaitOK() error {
	ctx, cancel := context.WithTimeout(context.Background(), agreeTimeout)
	defer cancel()
	return Await(ctx, c.ok)
}

// AwaitComplete waits until every node says that the cluster is ok and complete, every
// replica follows its master, and all nodes know that they are replicas.
func (c *ClusterNodes) AwaitComplete(ctx context.Context) error {
	return Await(ctx, func() error {
		if err := c.ok(); err != nil {
			return err
		}
		for _, s := range c.Servers() {
			if s.InfoSays("replication", "role:slave") == nil {
				if err := s.InfoSays("replication", "master_link_status:up"); err != nil {
					return err
				}
			}
			nodes, err := s.text("CLUSTER", "NODES")
			if err != nil {
				return err
			}
			if n := liveReplicas(nodes); n != len(c.Replicas) {
				return fmt.Errorf("servertest: cluster node %s knows of %d replicas, want %d:\n%s", s.Addr, n, len(c.Replicas), nodes)
			}
		}
		return nil
	})
}

// liveReplicas counts, in a reply to CLUSTER NODES, the replicas that nobody takes for dead.
func liveReplicas(nodes string) int {
	n := 0
	for line := range strings.Lines(nodes) {
		fields := strings.Fields(line)
		if len(fields) < 3 {
			continue
		}
		flags := strings.Split(fields[2], ",")
		if slices.Contains(flags, "slave") && !slices.Contains(flags, "fail") && !slices.Contains(flags, "fail?") {
			n++
		}
	}
	return n
}

// ok returns nil if every node says that the cluster is ok and complete, and is linked to
// the others.
func (c *ClusterNodes) ok() error {
	want := []string{
		"cluster_state:ok",
		"cluster_slots_ok:" + strconv.Itoa(SlotCount),
		"cluster_known_nodes:" + strconv.Itoa(len(c.Servers())),
		"cluster_size:" + strconv.Itoa(len(c.Nodes)),
	}
	for _, node := range c.Servers() {
		info, err := node.text("CLUSTER", "INFO")
		if err != nil {
			return err
		}
		for _, line := range want {
			if !strings.Contains(info, line+"\r\n") {
				return fmt.Errorf("servertest: cluster node %s does not say %q but:\n%s", node.Addr, line, info)
			}
		}
		// What a node publishes does not reach the nodes that it has no link to yet.
		nodes, err := node.text("CLUSTER", "NODES")
		if err != nil {
			return err
		}
		if linked := strings.Count(nodes, " connected"); linked != len(c.Servers()) {
			return fmt.Errorf("servertest: cluster node %s is connected to %d nodes, itself included, want %d:\n%s", node.Addr, linked, len(c.Servers()), nodes)
		}
	}
	return nil
}

// Addrs returns the addresses of Nodes.
func (c *ClusterNodes) Addrs() []string { return addrs(c.Nodes) }

// NodeOf returns the node that has the key's slot, as long as the test moves no
// slots itself and no replica has been promoted. Any running node is asked for the
// slot's number.
func (c *ClusterNodes) NodeOf(key string) *Server {
	c.tb.Helper()
	var errs []error
	for _, node := range c.Nodes {
		reply, err := node.Do("CLUSTER", "KEYSLOT", key)
		if slot, ok := reply.(int64); ok {
			return c.Nodes[owner(int(slot), len(c.Nodes))]
		}
		errs = append(errs, err)
	}
	c.tb.Fatalf("servertest: slot of %q: %v", key, errors.Join(errs...))
	return nil
}

// owner returns which of n nodes join gave the slot to.
func owner(slot, n int) int { return ((slot+1)*n - 1) / SlotCount }

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr
	}
	return list
}

// text sends a command whose reply is a string.
func (s *Server) text(args ...string) (string, error) {
	reply, err := s.Do(args...)
	if err != nil {
		return "", err
	}
	text, ok := reply.(string)
	if !ok {
		return "", fmt.Errorf("servertest: %s on %s replied %v, want a string", args[0], s.Addr, reply)
	}
	return text, nil
}
