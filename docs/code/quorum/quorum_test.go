package quorum

import (
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func TestConfiguredLocksAndTellsVotes(t *testing.T) {
	var servers []*miniredis.Miniredis
	var connectors []driver.Connector
	for range 3 {
		server := miniredis.RunT(t)
		connector, err := locker.OpenConnector("goredis", "redis://"+server.Addr())
		require.NoError(t, err)
		servers, connectors = append(servers, server), append(connectors, connector)
	}
	client, err := Configured(connectors)
	require.NoError(t, err)
	defer client.Close()
	lease, err := client.Mutex("orders:42").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))

	servers[0].Close()
	servers[1].Close()
	_, err = client.Mutex("orders:42").TryLock(t.Context())
	require.Error(t, err)
	LogVotes(err)
	assert.ErrorIs(t, err, locker.ErrUnavailable)
}
