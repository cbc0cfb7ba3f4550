package classics

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// A resource that is written under the lock: it refuses a smaller token.
type resource struct {
	value string
	last  locker.Token
}

func (r *resource) write(value string, token locker.Token) bool {
	if token < r.last {
		return false
	}
	r.value, r.last = value, token
	return true
}

// A process looks whether it has the lock, is paused, and writes.
func TestMajorityWithoutFencing(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		var servers []*redis.Client
		for _, s := range []server{s, newServer(t), newServer(t)} {
			servers = append(servers, s.process(t).Client)
		}
		var r resource
		until, ok := TakeMajority(t.Context(), servers, "k", "a", ttl)
		require.True(t, ok)
		require.True(t, time.Now().Before(until)) // a looks,
		time.Sleep(2 * ttl)                       // and is paused
		_, ok = TakeMajority(t.Context(), servers, "k", "b", ttl)
		require.True(t, ok)
		r.write("b's", 0)
		r.write("a's", 0) // now a goes on
		assert.Equal(t, "a's", r.value, "b's write is lost, and b has the lock")
	})
	bubble(t, func(t *testing.T, s server) {
		servers := []server{s, newServer(t), newServer(t)}
		quorum := func() *locker.Client {
			var connectors []driver.Connector
			for _, s := range servers {
				connectors = append(connectors, goredis.Wrap(s.process(t).Client))
			}
			c, err := redlock.New(connectors, redlock.Config{Bootstrap: true}, locker.TTL(ttl), locker.Fenced(), locker.NoRenewal())
			require.NoError(t, err)
			t.Cleanup(func() { assert.NoError(t, c.Close()) })
			return c
		}
		var r resource
		a := mustTryLock(t, quorum().Mutex("k"))
		require.True(t, a.Valid())
		time.Sleep(2 * ttl)
		b := mustTryLock(t, quorum().Mutex("k"))
		assert.True(t, r.write("b's", b.Token()))
		assert.False(t, r.write("a's", a.Token()))
		assert.Equal(t, "b's", r.value)
	})
}
