package conformance_test

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance"
)

const realPassword = "5erver-pa55word"

func TestReferenceOnRealServer(t *testing.T) {
	addr := startRedis(t)
	conformance.Test(t, harness(""), conformance.Server(addr), conformance.Auth("", realPassword), contract)
}

// startRedis starts the program that REDIS_SERVER names, else redis-server or
// valkey-server. Without one the test is skipped, unless REQUIRE_REDIS is set.
// This module has no dependency that only this repository has, so it does not
// use the servertest module.
func startRedis(t *testing.T) string {
	t.Helper()
	path := os.Getenv("REDIS_SERVER")
	for _, name := range []string{"redis-server", "valkey-server"} {
		if found, err := exec.LookPath(name); path == "" && err == nil {
			path = found
		}
	}
	if path == "" {
		require.Empty(t, os.Getenv("REQUIRE_REDIS"), "REQUIRE_REDIS is set and there is no redis-server or valkey-server")
		t.Skip("there is no redis-server or valkey-server")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", t.TempDir(), "--requirepass", realPassword)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	require.Eventually(t, func() bool {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	}, 10*time.Second, 10*time.Millisecond, "the server does not listen")
	return addr
}
