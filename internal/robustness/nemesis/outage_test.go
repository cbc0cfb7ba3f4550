package nemesis_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

// missing is a proof that some of these servers, and no others, are dead or do not answer until it is healed.
func missing(among func(*stage) []*servertest.Server) proof {
	return func(t *testing.T, s *stage, f *incident) {
		silent := func() (n int) {
			for _, srv := range among(s) {
				if !answers(t, srv) {
					n++
				}
			}
			return n
		}
		assert.Zero(t, silent())
		f.inject()
		assert.Positive(t, silent())
		assert.True(t, answers(t, s.srv), "the master")
		f.heal()
		assert.Zero(t, silent())
		assert.NoError(t, s.srv.InfoSays("replication", "role:master"))
	}
}

// answers tells whether a server says something for a moment.
func answers(t *testing.T, srv *servertest.Server) bool {
	t.Helper()
	if srv.PID() == 0 {
		return false
	}
	conn, err := redis.Dial("tcp", srv.Addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = redis.DoWithTimeout(conn, 10*moment, "PING")
	return err == nil
}

func theReplica(s *stage) []*servertest.Server   { return s.Rig.Servers[1:] }
func theSentinels(s *stage) []*servertest.Server { return s.Rig.Sentinels.Sentinels }

var (
	_ = prove("replica-kill", missing(theReplica))
	_ = prove("replica-stop", missing(theReplica))
	_ = prove("sentinel-kill", missing(theSentinels))
	_ = prove("sentinel-stop", missing(theSentinels))
)
