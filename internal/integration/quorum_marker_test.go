package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// What somebody has written to the key of a node's marker is none, of whatever type: the node takes no
// part for a while, and is told from one whose lock's keys were written to. How a script meets a key
// of another type is worded by each version of a server in its own way.
func TestQuorumNodeWithWhatIsNoMarker(t *testing.T) {
	t.Parallel()
	const marker = "__golocker:n"
	q := newFleet(t, crews["mixed"], servertest.Servers(t, 3))
	for _, kind := range lockKinds {
		for _, known := range []bool{false, true} {
			do(t, q.servers[0], "SET", marker, "1", "PX", "2592000000")
			c := q.client(t)
			if known {
				warm(t, c)
			}
			replace(t, q.servers[0], marker, "HSET", "field", "value")
			lease := mustLock(t, kind.on(c, "k"))
			eventually(t, "the node counts as new", func() bool {
				mustUnlock(t, mustLock(t, c.Mutex("another")))
				err := c.Nodes()[0].Err
				return err != nil && strings.Contains(err.Error(), "the node is new")
			})
			require.Equal(t, "string", do(t, q.servers[0], "TYPE", marker), kind.name)
			mustUnlock(t, lease)
			require.NoError(t, c.Close())
			q.assertEmptyWithin(t, patience)
		}
	}
}

// A lease that is held is renewed, whatever stands where its token is kept.
func TestQuorumLeaseWithABrokenCounter(t *testing.T) {
	t.Parallel()
	q := newFleet(t, crews["mixed"], servertest.Servers(t, 3))
	c := q.client(t, locker.TTL(renewedTTL))
	for _, kind := range []lockKind{fencedKind, reentrantKind, writeKind} {
		lease := mustLock(t, kind.on(c, "k"))
		for i, broken := range [][]string{{"SET", "abc"}, {"SET", "9007199254740991"}, {"HSET", "field", "value"}} {
			replace(t, q.servers[i], "__golocker:f:{k}:k", broken...)
		}
		assert.True(t, survivesRenewals(lease, 2), "%s: %v", kind.name, lease.Err())
		mustUnlock(t, lease)
		for _, s := range q.servers {
			s.Flush()
			do(t, s, "SET", "__golocker:n", "1", "PX", "2592000000")
		}
	}
}

// replace has command, without its key, write to a key that the server has just deleted: a client
// could write there in between.
func replace(t *testing.T, s *servertest.Server, key string, command ...string) {
	t.Helper()
	const script = "redis.call('DEL', KEYS[1]) return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))"
	do(t, s, append([]string{"EVAL", script, "1", key}, command...)...)
}
