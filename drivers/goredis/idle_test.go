package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

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
