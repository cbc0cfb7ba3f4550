//go:build unix

package servertest

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := Cluster(t, 3)
	require.Len(t, c.Addrs(), 3)
	for _, key := range []string{"a", "b", "c", "{tag}x", "", "orders:42"} {
		owner := c.NodeOf(key)
		for _, node := range c.Nodes {
			reply, err := overTCP(t, node.Addr, "SET", key, "v")
			require.NoError(t, err)
			if node == owner {
				assert.Equal(t, "OK", reply, key)
			} else {
				assert.True(t, strings.HasPrefix(reply.(ReplyError).Error(), "MOVED "), reply)
				assert.True(t, strings.HasSuffix(reply.(ReplyError).Error(), " "+owner.Addr), reply)
			}
		}
	}

	// A node that is down takes its own slots with it only, and comes back.
	c.Nodes[0].Kill()
	reply, err := overTCP(t, c.NodeOf("a").Addr, "GET", "a")
	require.NoError(t, err)
	assert.Equal(t, "v", reply)
	require.Equal(t, c.Nodes[0], c.NodeOf("b"))
	c.Nodes[0].Restart()
	c.AwaitOK()
	reply, err = overTCP(t, c.NodeOf("b").Addr, "SET", "b", "w")
	require.NoError(t, err)
	assert.Equal(t, "OK", reply)
}

func TestReplicatedClusterSurvivesItsMasters(t *testing.T) {
	t.Parallel()
	c := ReplicatedCluster(t, 3, Config("cluster-node-timeout", "500"))
	require.Len(t, c.Servers(), 6)
	master, replica := c.NodeOf("a"), c.Replicas[slices.Index(c.Nodes, c.NodeOf("a"))]
	do(t, master, "SET", "a", "v")
	require.Equal(t, int64(1), do(t, master, "WAIT", "1", "10000"))
	master.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), agreeTimeout)
	defer cancel()
	require.NoError(t, Await(ctx, func() error { return replica.InfoSays("replication", "role:master") }))
	reply, err := overTCP(t, replica.Addr, "GET", "a")
	require.NoError(t, err)
	assert.Equal(t, "v", reply)
	master.Restart()
	require.NoError(t, c.AwaitComplete(ctx))
	assert.NoError(t, master.InfoSays("replication", "role:slave"))
}

func TestClusterOfOneNode(t *testing.T) {
	t.Parallel()
	c := Cluster(t, 1)
	assert.Equal(t, "OK", do(t, c.NodeOf("a"), "SET", "a", "v"))
}

func TestSlotsAreSharedOutAsNodeOfSays(t *testing.T) {
	for n := 1; n <= 20; n++ {
		for i := range n {
			for _, slot := range []int{SlotCount * i / n, SlotCount*(i+1)/n - 1} {
				assert.Equal(t, i, owner(slot, n), "slot %d of %d nodes", slot, n)
			}
		}
	}
}

func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	s := Sentinel(t)
	require.Len(t, s.Addrs(), 3)
	first := s.Master()
	assert.Equal(t, s.Data[0], first)
	do(t, first, "SET", "k", "v")
	assert.Equal(t, int64(1), do(t, first, "WAIT", "1", "10000"))

	first.Pause()
	second := s.MasterOtherThan(first)
	assert.Equal(t, s.Data[1], second)
	assert.Equal(t, "v", do(t, second, "GET", "k"))
	first.Resume()
	require.NoError(t, s.await(func() error { return first.InfoSays("replication", "role:slave") }),
		"the old master must become a replica")

	assert.Equal(t, first, s.Failover())
	assert.Equal(t, first, s.Master())
}

func TestSentinelSurvivesARestart(t *testing.T) {
	t.Parallel()
	s := Sentinel(t, Password("secret"), SentinelConfig("requirepass", "other"))
	s.Sentinels[0].Restart()
	require.NoError(t, s.await(s.complete))
	assert.Equal(t, s.Data[0], s.Master())
	for addr, password := range map[string]string{s.Addrs()[0]: "other", s.Master().Addr: "secret"} {
		conn, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer conn.Close()
		reply, err := exchange(t, conn, "PING")
		require.NoError(t, err)
		assert.ErrorContains(t, reply.(ReplyError), "NOAUTH")
		reply, err = exchange(t, conn, "AUTH", password)
		require.NoError(t, err)
		assert.Equal(t, "OK", reply)
	}
}

func TestTLS(t *testing.T) {
	s := TLS(t)
	_, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	for _, addr := range []string{s.Addr, "localhost:" + port} {
		for _, config := range []*tls.Config{s.ServerOnly(), s.Mutual()} {
			conn, err := tls.Dial("tcp", addr, config)
			require.NoError(t, err)
			defer conn.Close()
			reply, err := exchange(t, conn, "PING")
			require.NoError(t, err)
			assert.Equal(t, "PONG", reply)
		}
	}
	_, err = tls.Dial("tcp", s.Addr, &tls.Config{})
	assert.Error(t, err, "only our authority vouches for the server")
	_, err = tls.Dial("tcp", s.Addr, NewCerts(t).ServerOnly())
	assert.Error(t, err, "another authority does not vouch for the server")
	assert.Equal(t, "PONG", do(t, s.Server, "PING"))
}

func TestTLSThatDemandsAClientCertificate(t *testing.T) {
	s := TLS(t, Config("tls-auth-clients", "yes"))
	ping := func(config *tls.Config) (any, error) {
		conn, err := tls.Dial("tcp", s.Addr, config)
		if err != nil {
			return nil, err
		}
		defer conn.Close()
		return exchange(t, conn, "PING")
	}
	_, err := ping(s.ServerOnly())
	assert.Error(t, err)
	reply, err := ping(s.Mutual())
	require.NoError(t, err)
	assert.Equal(t, "PONG", reply)

	fromFiles, err := tls.LoadX509KeyPair(s.ClientCertFile, s.ClientKeyFile)
	require.NoError(t, err)
	config := s.ServerOnly()
	config.Certificates = []tls.Certificate{fromFiles}
	_, err = ping(config)
	assert.NoError(t, err)
}

func TestTLSInEveryTopology(t *testing.T) {
	t.Parallel()
	certs := NewCerts(t)
	c := Cluster(t, 2, Secure(certs))
	s := Sentinel(t, Secure(certs))
	for _, addr := range append(c.Addrs(), append(s.Addrs(), s.Master().Addr)...) {
		conn, err := tls.Dial("tcp", addr, certs.ServerOnly())
		require.NoError(t, err)
		defer conn.Close()
		reply, err := exchange(t, conn, "PING")
		require.NoError(t, err)
		assert.Equal(t, "PONG", reply)
	}
}

// A node that gets no time while it comes to know another one forgets it, and is met again.
func TestNodesMeetAgain(t *testing.T) {
	t.Parallel()
	skipCluster(t)
	c := &ClusterNodes{Nodes: startAll(t, 2, kindCluster, newSettings([]Option{Config("cluster-node-timeout", "500")})), tb: t}
	joined := make(chan error, 1)
	go func() { joined <- c.join() }()
	require.NoError(t, Await(t.Context(), func() error {
		nodes, err := c.Nodes[0].text("CLUSTER", "NODES")
		if err == nil && !strings.Contains(nodes, "handshake") && len(joined) == 0 {
			err = errors.New("nobody was met yet")
		}
		return err
	}))
	c.Nodes[0].Pause()
	time.Sleep(1500 * time.Millisecond) // a handshake has one second
	c.Nodes[0].Resume()
	require.NoError(t, <-joined)
}
