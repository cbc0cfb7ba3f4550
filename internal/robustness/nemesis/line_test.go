package nemesis_test

import (
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const incr = "return redis.call('INCR', 'k')"

// interrupts is a proof that a request is not answered until it is healed, and how many
// have been executed before that.
func interrupts(executed any) proof {
	return func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		c.do("PING")
		f.inject()
		c.send("INCR", "k")
		c.silent()
		if executed == nil {
			assert.Nil(t, s.ask("GET", "k"))
		} else {
			s.becomes(executed, "GET", "k")
		}
		f.heal()
		s.becomes("1", "GET", "k")
		s.dial().do("PING")
	}
}

var (
	_ = prove("wire-partition", interrupts(nil))
	_ = prove("wire-requests-lost", interrupts(nil))
	_ = prove("wire-replies-lost", interrupts("1"))
	_ = prove("wire-half-open", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		c.do("PING")
		f.inject()
		c.send("INCR", "k")
		c.silent()
		s.dial().do("PING")
		f.heal()
		assert.Nil(t, s.ask("GET", "k"), "it is lost for good")
	})
	_ = prove("wire-reset", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		c.do("PING")
		f.inject()
		assert.ErrorIs(t, c.cut(), syscall.ECONNRESET)
		f.heal()
		s.dial().do("PING")
	})
	_ = prove("wire-refused", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		c.do("PING")
		f.inject()
		c.cut()
		_, err := redis.Dial("tcp", s.addr)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		f.heal()
		s.dial().do("PING")
	})
	_ = prove("wire-delay", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		f.inject()
		begun := time.Now()
		const n = 20
		for range n {
			c.do("PING")
		}
		assert.GreaterOrEqual(t, time.Since(begun), n*time.Millisecond)
		f.heal()
	})
	_ = prove("wire-reply-lost-after-apply", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		f.inject()
		c.send("EVAL", incr, "0")
		c.cut()
		assert.Equal(t, "1", s.ask("GET", "k"))
		f.heal()
		s.dial().do("EVAL", incr, "0")
	})
	_ = prove("wire-request-twice", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		f.inject()
		assert.Equal(t, int64(1), c.do("EVAL", incr, "0"))
		s.becomes("2", "GET", "k")
		assert.Equal(t, int64(3), c.do("EVAL", incr, "0"))
		f.heal()
		s.becomes("4", "GET", "k")
		assert.Equal(t, int64(5), c.do("EVAL", incr, "0"))
	})
	_ = prove("wire-request-late", func(t *testing.T, s *stage, f *incident) {
		c := s.dial()
		f.inject()
		c.send("EVAL", incr, "0")
		c.silent()
		_ = c.Close()
		assert.Nil(t, s.ask("GET", "k"))
		f.heal()
		s.becomes("1", "GET", "k")
	})
)
