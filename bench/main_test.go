package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/bench/internal/harness"
	"github.com/golocker/golocker/internal/servertest"
)

// A name that is misspelt is no success.
func TestARunThatMeasuresNothingFails(t *testing.T) {
	if !harness.Supported {
		t.Skip("measuring works on Linux only")
	}
	servertest.Require(t)
	t.Cleanup(harness.StopAll)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := free.Addr().(*net.TCPAddr).Port
	require.NoError(t, free.Close())
	for _, f := range []flags{
		{only: "nosuch"}, {match: "nothing", only: "floor/redigo"}, {short: true, only: "selftest/nolock"},
	} {
		f.scenarios, f.port, f.rounds = "free", port, 1
		assert.ErrorContains(t, run(f), "nothing was measured", "%+v", f)
		harness.StopAll()
	}
}
