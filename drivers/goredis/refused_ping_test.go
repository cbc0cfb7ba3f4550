package goredis_test

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker/driver"
)

// With a PING the driver has go-redis connect. A server that is loading refuses that and takes
// SUBSCRIBE. The refusal was given to who subscribed, and after a reconnect nothing was heard
// and no gap told.
func TestSubscriptionWhereOnlyPingIsRefused(t *testing.T) {
	server := servertest.Single(t)
	for name, connect := range map[string]func(*testing.T, *wire.Wire) driver.Conn{
		"open": func(t *testing.T, w *wire.Wire) driver.Conn {
			return open(t, driver.Config{Addrs: []string{server.Addr}, Dial: w.Dial})
		},
		"wrap": func(t *testing.T, w *wire.Wire) driver.Conn { // speaks RESP3
			client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial})
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			return wrap(t, client)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWire(t, server.Addr)
			w.On(wire.Match{Name: "PING", Times: -1}, wire.Answer("-LOADING Redis is loading the dataset in memory\r\n"))
			publisher := open(t, driver.Config{Addrs: []string{server.Addr}})
			sub := subscribe(t, connect(t, w), "a")
			hears(t, sub, publisher, "a", "1")
			w.KillAll()
			_, err := sub.Receive(soon(t))
			require.ErrorIs(t, err, driver.ErrGap)
			hears(t, sub, publisher, "a", "2")
		})
	}
}

// What a server or a proxy says before it hangs up is not kept back.
func TestSubscriptionThatIsRefusedTells(t *testing.T) {
	server := servertest.Single(t)
	t.Run("by each command", func(t *testing.T) {
		w := newWire(t, server.Addr)
		w.On(wire.Match{Times: -1}, wire.Answer("-NOAUTH Authentication required.\r\n"))
		conn := open(t, driver.Config{Addrs: []string{server.Addr}, Dial: w.Dial})
		sub := subscribe(t, conn)
		assert.Equal(t, driver.NewServerError("NOAUTH Authentication required."), sub.Add(soon(t), "a"))
	})
	t.Run("by the end of the connection", func(t *testing.T) {
		w := newWire(t, server.Addr)
		w.On(wire.Match{Name: "PING"}, wire.Answer("-ERR go away\r\n"))
		w.On(wire.Match{Name: "SUBSCRIBE"}, wire.HalfReply) // when the other one has been read
		conn := open(t, driver.Config{Addrs: []string{server.Addr}, Dial: w.Dial})
		sub := subscribe(t, conn)
		err := sub.Add(soon(t), "a")
		assert.ErrorContains(t, err, "go away")
		unknown(t, err)
	})
}
