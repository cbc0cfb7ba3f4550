package nemesis_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dies is a proof that the server is down until it is healed, and what is there then.
func dies(left any) proof {
	return func(t *testing.T, s *stage, f *incident) {
		s.ask("SET", "k", "v", "PX", "60000")
		f.inject()
		assert.Zero(t, s.srv.PID())
		s.dial().cut()
		f.heal()
		assert.Equal(t, left, s.ask("GET", "k"))
		assert.Equal(t, []any{"appendonly", "no"}, s.ask("CONFIG", "GET", "appendonly"))
	}
}

var (
	_ = prove("server-kill-empty", dies(nil))
	_ = prove("server-kill-aof", dies("v"))
	_ = prove("loading", func(t *testing.T, s *stage, f *incident) {
		s.ask("SET", "k", "v", "PX", "60000")
		f.inject()
		s.dial().refused("LOADING", "GET", "k")
		f.heal()
		assert.Equal(t, "v", s.ask("GET", "k"))
		assert.NotContains(t, s.ask("INFO", "keyspace"), "db15", "the ballast is gone")
	})
)

// freezes is a proof that nothing is answered, and nothing lost.
func freezes(t *testing.T, s *stage, f *incident) {
	s.ask("SET", "k", "v", "PX", "60000")
	c := s.dial()
	c.do("PING")
	f.inject()
	c.send("GET", "k")
	c.silent()
	f.heal()
	assert.Equal(t, []byte("v"), s.dial().do("GET", "k"))
}

var (
	_ = prove("server-stop", freezes)
	_ = prove("debug-sleep", freezes)
	_ = prove("client-pause-all", freezes)
	_ = prove("client-pause-write", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		f.inject()
		c.do("GET", "k")
		c.send("INCR", "k")
		c.silent()
		f.heal()
		s.dial().do("INCR", "k")
	})
)

// refuses is a proof that the server refuses to write with that code.
func refuses(code string) proof {
	return func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		c.do("SET", "k", "v")
		f.inject()
		c.refused(code, "SET", "k", "w")
		f.heal()
		assert.Equal(t, []byte("v"), c.do("GET", "k"))
		c.do("SET", "k", "w")
	}
}

var (
	_ = prove("busy-script", refuses("BUSY"))
	_ = prove("out-of-memory", refuses("OOM"))
	_ = prove("no-replicas", refuses("NOREPLICAS"))
	_ = prove("readonly", refuses("READONLY"))
	_ = prove("misconf", whileItSaves(refuses("MISCONF")))
)

// whileItSaves begins with a snapshot in progress, as one that a replica has asked for.
func whileItSaves(p proof) proof {
	return func(t *testing.T, s *stage, f *incident) {
		s.ask("SET", "slow", "v", "PX", "600000")
		s.ask("CONFIG", "SET", "rdb-key-save-delay", "500000") // µs
		s.ask("BGSAVE")
		s.ask("CONFIG", "SET", "rdb-key-save-delay", "0")
		p(t, s, f)
	}
}

// evicts is a proof that keys which have a TTL go, and whether others do.
func evicts(others bool) proof {
	return func(t *testing.T, s *stage, f *incident) {
		const n = 200
		for i := range n {
			s.ask("SET", "mortal"+strconv.Itoa(i), "v", "PX", "600000")
			s.ask("SET", "immortal"+strconv.Itoa(i), "v")
		}
		count := func(pattern string) int {
			keys, _ := s.ask("KEYS", pattern).([]any)
			return len(keys)
		}
		f.inject()
		require.Eventually(t, func() bool { return count("mortal*") < n }, patience, moment)
		if others {
			require.Eventually(t, func() bool { return count("immortal*") < n }, patience, moment)
		} else {
			assert.Equal(t, n, count("immortal*"))
		}
		s.dial().do("SET", "new", "v", "PX", "600000") // there is room for more
		f.heal()
		s.ask("SET", "k", "v", "PX", "60000")
		assert.Equal(t, []any{"maxmemory", "0"}, s.ask("CONFIG", "GET", "maxmemory"))
		assert.Equal(t, []any{"maxmemory-policy", "noeviction"}, s.ask("CONFIG", "GET", "maxmemory-policy"))
		assert.NotContains(t, s.ask("INFO", "keyspace"), "db15", "the ballast is gone")
	}
}

var (
	_ = prove("evict-allkeys-lru", evicts(true))
	_ = prove("evict-volatile-lru", evicts(false))
	_ = prove("flushall", func(t *testing.T, s *stage, f *incident) {
		s.ask("SET", "k", "v")
		f.inject()
		assert.Nil(t, s.ask("GET", "k"))
		f.heal()
	})
)

var (
	_ = prove("client-kill-normal", func(t *testing.T, s *stage, f *incident) {
		normal, hearing := s.dial(), s.dial()
		hearing.do("SUBSCRIBE", "c")
		f.inject()
		normal.cut()
		s.ask("PUBLISH", "c", "m")
		_, err := hearing.Receive()
		require.NoError(t, err)
		// Who comes back is disconnected again.
		again := s.dial()
		require.Eventually(t, func() bool { _, err := again.try("PING"); return err != nil }, patience, moment)
		f.heal()
		s.dial().do("PING")
	})
	_ = prove("client-kill-pubsub", func(t *testing.T, s *stage, f *incident) {
		normal, hearing := s.dial(), s.dial()
		hearing.do("SUBSCRIBE", "c")
		f.inject()
		hearing.cut()
		normal.do("PING")
		f.heal()
	})
	_ = prove("script-flush", func(t *testing.T, s *stage, f *incident) {
		const script = "return 1"
		sha := s.ask("SCRIPT", "LOAD", script).(string)
		f.inject()
		assert.Equal(t, []any{int64(0)}, s.ask("SCRIPT", "EXISTS", sha))
		s.ask("SCRIPT", "LOAD", script)
		s.becomes("[0]", "SCRIPT", "EXISTS", sha) // again and again
		f.heal()
	})
	_ = prove("maxclients", func(t *testing.T, s *stage, f *incident) {
		open := s.dial()
		open.do("PING")
		f.inject()
		open.cut()
		const limit = 3 // one of them is the test's own
		refused := 0
		for range limit + 1 {
			if _, err := s.dial().try("PING"); err != nil {
				assert.ErrorContains(t, err, "max number of clients")
				refused++
			}
		}
		assert.GreaterOrEqual(t, refused, 2)
		f.heal()
		s.dial().do("PING")
	})
)
