package nemesis_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

var _ = prove("failover-replicaof", func(t *testing.T, s *stage, f *incident) {
	led := func() any {
		return string(s.dial().do("CONFIG", "GET", "port").([]any)[1].([]byte))
	}
	c := s.dial()
	c.do("SET", "k", "v")
	assert.Equal(t, int64(1), c.do("WAIT", "1", "10000"))
	assert.Equal(t, s.srv.Port(), led())
	f.inject()
	c.cut()
	assert.Equal(t, s.Rig.Servers[1].Port(), led())
	assert.Equal(t, []byte("v"), s.dial().do("GET", "k"))
	s.dial().do("SET", "k", "w")
	assert.Equal(t, "slave", s.ask("ROLE").([]any)[0])
	f.heal()
	assert.Equal(t, s.srv.Port(), led())
	s.dial().do("SET", "k", "x")
})

// promotes is a proof that one replica takes the place of its master, and whether the
// master is gone meanwhile. That the rest agrees to it is what the heal waits for.
func promotes(gone bool) proof {
	return func(t *testing.T, s *stage, f *incident) {
		half := len(s.Rig.Servers) / 2
		masters, replicas := s.Rig.Servers[:half], s.Rig.Servers[half:]
		f.inject()
		down := 0
		for _, srv := range masters {
			if srv.PID() == 0 {
				down++
			}
		}
		if gone {
			assert.Equal(t, 1, down)
		} else {
			assert.Zero(t, down)
		}
		promoted := 0
		for _, srv := range replicas {
			if srv.InfoSays("replication", "role:master") == nil {
				promoted++
			}
		}
		assert.Positive(t, promoted)
		f.heal()
		for _, srv := range masters {
			assert.NotZero(t, srv.PID())
		}
	}
}

var (
	_ = prove("sentinel-failover", promotes(false))
	_ = prove("sentinel-master-kill", promotes(true))
	_ = prove("sentinel-master-stop", promotes(false))
	_ = prove("cluster-failover", promotes(false))
	_ = prove("cluster-failover-force", promotes(false))
	_ = prove("cluster-failover-takeover", promotes(false))
	_ = prove("cluster-master-kill", promotes(true))
	_ = prove("cluster-master-stop", promotes(false))
	_ = prove("cluster-migrate", func(t *testing.T, s *stage, f *incident) {
		const n = 100
		homes := map[string]*servertest.Server{}
		for i := range n {
			key := fmt.Sprintf("key %d", i)
			homes[key] = s.Rig.Nodes.NodeOf(key)
			_, err := homes[key].Do("SET", key, "v", "PX", "600000")
			require.NoError(t, err)
		}
		masters := s.Rig.Nodes.Nodes
		between := func() (slots int) {
			for _, srv := range masters {
				nodes, err := srv.Do("CLUSTER", "NODES")
				require.NoError(t, err)
				slots += strings.Count(nodes.(string), "->-")
			}
			return slots
		}
		f.inject()
		assert.Positive(t, between())
		f.heal()
		assert.Zero(t, between())
		moved := 0
		for key, home := range homes {
			found := 0
			for _, srv := range masters {
				if value, err := srv.Do("GET", key); err == nil && value == "v" {
					found++
					if srv != home {
						moved++
					}
				}
			}
			assert.Equal(t, 1, found, key)
		}
		assert.Positive(t, moved)
	})
)
