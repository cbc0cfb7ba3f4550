package operating

import (
	"fmt"
	"os"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func TestDataSourceNames(t *testing.T) {
	for _, dsn := range []string{Single, Unix, Sentinel, Cluster} {
		_, err := driver.ParseDSN(dsn)
		assert.NoError(t, err)
	}
	_, err := driver.ParseDSN(TLS)
	assert.ErrorContains(t, err, "tls_ca", "the file is not there, and nothing else is wrong")
}

func TestOperations(t *testing.T) {
	server := miniredis.RunT(t)
	open := func(service string) *locker.Client {
		client, err := Open("redis://"+server.Addr(), service)
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, client.Close()) })
		return client
	}
	client := open("billing")
	require.NoError(t, Probe(t.Context(), client, "host-1"))
	_, err := client.Mutex("probe:host-1").TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, Probe(t.Context(), client, "host-1"), "another one has it")
	host, err := os.Hostname()
	require.NoError(t, err)
	_, err = client.Mutex("a").TryLock(t.Context())
	require.NoError(t, err)

	admin := open("admin")
	_, err = admin.Mutex("a").TryLock(t.Context())
	assert.Equal(t, "held by somebody else", Report(err))
	// One that was started again, on the same host, is alive.
	assert.Error(t, BreakStale(t.Context(), admin, "a", fmt.Sprintf("billing@%s:%d", host, os.Getppid())))
	require.NoError(t, BreakStale(t.Context(), admin, "a", fmt.Sprintf("billing@%s:%d", host, os.Getpid())))
	assert.ErrorIs(t, Probe(t.Context(), admin, ""), nil)
	server.SetError("LOADING Redis is loading the dataset in memory")
	_, err = admin.Mutex("a").TryLock(t.Context())
	assert.Equal(t, "the server cannot be reached, or cannot serve", Report(err))
	server.SetError("")
}
