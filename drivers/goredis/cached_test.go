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

// What a client caches is no answer of the server: a lock that is asked for again may be another's by now.
func TestWrapNothingIsCached(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial, ClientSideCacheConfig: &redis.CacheConfig{}})
	defer client.Close()
	conn := wrap(t, client)
	gets := func() int { return w.Count(wire.Match{Name: "GET", Arg: "k"}) }
	for range 2 {
		require.ErrorIs(t, client.Get(soon(t), "k").Err(), redis.Nil)
	}
	require.Equal(t, 1, gets(), "the client caches nothing: the test is at fault")
	for i := range 3 {
		_, err := conn.Do(soon(t), on("GET", "k"))
		require.NoError(t, err)
		assert.Equal(t, 2+i, gets())
	}
}

// Nor do the messages by which the server has such a client forget what it has cached, which come on any of its
// connections, before a reply or behind it, take the place of a reply.
func TestWrapInvalidationsAreNoReplies(t *testing.T) {
	server := servertest.Single(t)
	w := newWire(t, server.Addr)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Dialer: w.Dial, PoolSize: 1, PipelinePoolSize: -1, ClientSideCacheConfig: &redis.CacheConfig{}})
	defer client.Close()
	conn := wrap(t, client)
	const invalidation = ">2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n"
	for place, reply := range map[string]string{
		"before": invalidation + "$3\r\nown\r\n",
		"behind": "$3\r\nown\r\n" + invalidation,
		"both":   invalidation + invalidation + "$3\r\nown\r\n" + invalidation,
	} {
		t.Run(place, func(t *testing.T) {
			echo := func(text string) driver.Command { return driver.Command{Args: []string{"ECHO", text}} }
			rule := w.On(wire.Match{Name: "ECHO", Arg: "own", Times: -1}, wire.Answer(reply))
			defer rule.Remove()
			for range 3 {
				assert.Equal(t, "own", do(t, conn, "ECHO", "own"))
				assert.Equal(t, "x", do(t, conn, "ECHO", "x"))
				assert.Equal(t, []driver.Result{{Value: "own"}, {Value: "a"}, {Value: "own"}, {Value: "own"}, {Value: "b"}},
					conn.(driver.Batcher).DoBatch(soon(t), []driver.Command{echo("own"), echo("a"), echo("own"), echo("own"), echo("b")}))
			}
		})
	}
}
