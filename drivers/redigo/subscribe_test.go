package redigo_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker/driver"
)

// Where nothing is subscribed to, a server answers PING in another way. If that were not taken for
// the answer, the next one would be.
func TestPongWithoutChannels(t *testing.T) {
	bothWays(t, func(t *testing.T, r *rig, c driver.Conn) {
		s, err := c.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		defer s.Close()
		require.NoError(t, s.Add(t.Context(), "ch"))
		require.NoError(t, s.Remove(t.Context(), "ch"))
		r.On(wire.Match{Name: "PING"}, wire.Answer("+PONG\r\n")) // as servers do, and miniredis does not
		time.Sleep(6 * time.Second)
		require.Equal(t, 1, r.Count(wire.Match{Name: "PING"}))
		r.On(wire.Match{Name: "SUBSCRIBE"}, wire.Answer("-NOPERM no\r\n"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Equal(t, driver.NewServerError("NOPERM no"), s.Add(ctx, "ch"))
	})
}

// A pool need not have a DialContext.
func TestSubscribeThroughPoolWithDial(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		pool := r.pool()
		dial := pool.DialContext
		pool.DialContext, pool.Dial = nil, func() (redis.Conn, error) { return dial(context.Background()) }
		c := connect(t, redigo.Wrap(pool))
		s, err := c.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		require.NoError(t, s.Add(t.Context(), "ch"))
		do(t, c, "PUBLISH", "ch", "one")
		m, err := s.Receive(t.Context())
		require.NoError(t, err)
		require.Equal(t, driver.Message{Channel: "ch", Payload: "one"}, m)
	})
}
