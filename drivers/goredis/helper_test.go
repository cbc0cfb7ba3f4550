package goredis_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker/driver"
)

// soon bounds what should not take long.
func soon(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// wrap connects to a wrapped client.
func wrap(t *testing.T, client redis.UniversalClient) driver.Conn {
	conn, err := goredis.Wrap(client).Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// open connects by a Config.
func open(t *testing.T, cfg driver.Config) driver.Conn {
	connector, err := goredis.Driver{}.OpenConnector(cfg)
	require.NoError(t, err)
	conn, err := connector.Connect(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, conn.Close()) })
	return conn
}

// newWire returns a wire to the server at addr.
func newWire(t *testing.T, addr string) *wire.Wire {
	w := wire.New(wire.TCP(addr))
	t.Cleanup(func() { assert.NoError(t, w.Close()) })
	return w
}

// on makes a command whose first argument is its only key.
func on(name, key string, args ...string) driver.Command {
	return driver.Command{Args: append([]string{name, key}, args...), FirstKey: 1, NumKeys: 1}
}

func do(t *testing.T, conn driver.Conn, args ...string) driver.Value {
	t.Helper()
	v, err := conn.Do(soon(t), driver.Command{Args: args})
	require.NoError(t, err)
	return v
}

func subscribe(t *testing.T, conn driver.Conn, channels ...string) driver.Subscription {
	t.Helper()
	sub, err := conn.(driver.Subscriber).Subscribe(soon(t))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, sub.Close()) })
	require.NoError(t, sub.Add(soon(t), channels...))
	return sub
}

// hears checks that a message published through conn arrives at sub.
func hears(t *testing.T, sub driver.Subscription, conn driver.Conn, channel, payload string) {
	t.Helper()
	do(t, conn, "PUBLISH", channel, payload)
	message, err := sub.Receive(soon(t))
	require.NoError(t, err)
	require.Equal(t, driver.Message{Channel: channel, Payload: payload}, message)
}

// unknown checks that err claims nothing about what became of a command.
func unknown(t *testing.T, err error) {
	t.Helper()
	assert.Error(t, err)
	assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "%v", err)
}
