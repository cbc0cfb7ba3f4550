package goredis_test

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// With TLS neither, though go-redis itself looks at no such connection. A proxy may close what has been
// idle for seconds, which each renewal would meet then.
func TestIdleConnectionsWithTLSThatAreClosedAreNotUsed(t *testing.T) {
	server := servertest.TLS(t)
	conn := open(t, driver.Config{Addrs: []string{server.Addr}, TLS: server.ServerOnly()})
	client := func() string {
		id, err := conn.Do(t.Context(), driver.Command{Args: []string{"CLIENT", "ID"}})
		require.NoError(t, err)
		return fmt.Sprint(id)
	}
	used := client()
	assert.Equal(t, used, client(), "one that is well is used again")
	killed, err := server.Do("CLIENT", "KILL", "ID", used)
	require.NoError(t, err)
	require.EqualValues(t, 1, killed)
	assert.NotEqual(t, used, client())
}

// A connection that the server has closed while it was idle is not used.
func TestIdleConnectionsThatAreClosedAreNotUsed(t *testing.T) {
	server := servertest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	conns := map[string]driver.Conn{
		"open": open(t, driver.Config{Network: "tcp", Addrs: []string{server.Addr}}),
		"wrap": wrap(t, client),
	}
	for _, conn := range conns {
		_, err := conn.Do(t.Context(), on("SET", "k", "v"))
		require.NoError(t, err)
	}
	server.Restart()
	for name, conn := range conns {
		_, err := conn.Do(soon(t), on("SET", "k", "v"))
		assert.NoError(t, err, name)
	}
}
