package integration_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// A master that is dead or hangs sends nobody to the replica that has taken its place. Where a
// client does not ask the others by itself, locks cannot be had until it happens to: with
// go-redis, which asks when it sends a command again, that was a minute.
func TestClusterCommandsFindTheReplicaThatWasElected(t *testing.T) {
	t.Parallel()
	for fault, begin := range map[string]func(*servertest.Server){
		"killed": (*servertest.Server).Kill,
		"frozen": (*servertest.Server).Pause,
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			const key = "k"
			cluster := servertest.ReplicatedCluster(t, 3, servertest.Config("cluster-node-timeout", "1000"),
				servertest.Config("cluster-replica-validity-factor", "0"))
			master := cluster.NodeOf(key)
			replica := cluster.Replicas[slices.Index(cluster.Nodes, master)]
			pushers := newPushers(t, cluster, key)
			for _, p := range pushers {
				require.NoError(t, p.push(soon(t)), p.name)
			}

			begin(master)
			if fault == "frozen" {
				t.Cleanup(master.Resume)
			}
			var all sync.WaitGroup
			for _, p := range pushers {
				all.Go(func() { p.pushUntilItWorks(t.Context()) })
			}
			eventually(t, "all nodes know the new master", func() bool { return rules(t, cluster, master, replica) })
			elected := time.Now()
			all.Wait()
			for _, p := range pushers {
				took := p.worked.Sub(elected)
				t.Logf("%s: %d commands failed, the next one worked %v after the election", p.name, p.pushed-2, took)
				assert.Less(t, took, patience, p.name)
			}
			pushed := do(t, replica, "LRANGE", key, "0", "-1").([]any)
			seen := map[any]bool{}
			for _, word := range pushed {
				assert.False(t, seen[word], "%v was sent twice", word)
				seen[word] = true
			}
		})
	}
}

// A pusher pushes words to a list, each of them once.
type pusher struct {
	name   string
	conn   driver.Conn
	key    string
	pushed int
	worked time.Time
}

// newPushers returns one for each way to use a Cluster.
func newPushers(t *testing.T, cluster *servertest.ClusterNodes, key string) []*pusher {
	var all []*pusher
	for _, d := range drivers {
		for _, d.wrapped = range []bool{false, true} {
			if !d.cluster {
				continue
			}
			conn, err := d.clusterConnector(t, cluster.Addrs()).Connect(soon(t))
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, conn.Close()) })
			all = append(all, &pusher{name: fmt.Sprintf("%s, wrapped %t", d.name, d.wrapped), conn: conn, key: key})
		}
	}
	return all
}

func (p *pusher) push(ctx context.Context) error {
	p.pushed++
	_, err := p.conn.Do(ctx, driver.Command{
		Args:     []string{"RPUSH", p.key, fmt.Sprintf("%s: %d", p.name, p.pushed)},
		FirstKey: 1, NumKeys: 1,
	})
	return err
}

// pushUntilItWorks pushes as a lock does that is tried again and again.
func (p *pusher) pushUntilItWorks(ctx context.Context) {
	becomes(time.Minute, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		return p.push(ctx) == nil
	})
	p.worked = time.Now()
}

// rules tells whether all nodes that are left know that the replica has its master's slots.
func rules(t *testing.T, cluster *servertest.ClusterNodes, master, replica *servertest.Server) bool {
	for _, s := range cluster.Servers() {
		if s == master {
			continue
		}
		for line := range strings.Lines(do(t, s, "CLUSTER", "NODES").(string)) {
			if !strings.Contains(line, " "+replica.Addr+"@") {
				continue
			}
			flags, slots := strings.Fields(line)[2], len(strings.Fields(line)) > 8
			if !strings.Contains(flags, "master") || !slots {
				return false
			}
		}
	}
	return true
}
