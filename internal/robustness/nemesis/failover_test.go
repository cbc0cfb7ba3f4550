package nemesis_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

var _ = prove("failover-replicaof", func(t *testing.T, s *stage, f *incident) {
	led := func() any {
		return string(s.dial().do("CONFIG", "GET", "port").([]any)[1].([]byte))
	}
	c := s.dial()
	c.do("SET", "k", "v")
	assert.Equal(t, int64(1), c.do("WAIT", "1", "10000"))
	assert.Equal(t, s.srv.Port(), led())
	f.inject()
	c.cut()
	assert.Equal(t, s.Rig.Servers[1].Port(), led())
	assert.Equal(t, []byte("v"), s.dial().do("GET", "k"))
	s.dial().do("SET", "k", "w")
	assert.Equal(t, "slave", s.ask("ROLE").([]any)[0])
	f.heal()
	assert.Equal(t, s.srv.Port(), led())
	s.dial().do("SET", "k", "x")
})
