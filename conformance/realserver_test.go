package conformance_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
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
	dir, err := os.MkdirTemp("", "redis") // t.TempDir may be too long for a socket's path
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for range 5 {
		if addr := startRedisOnSomePort(t, path, dir); addr != "" {
			return addr
		}
	}
	require.Fail(t, "the server gets no port")
	return ""
}

// startRedisOnSomePort returns "" if somebody has taken the port before the server could.
func startRedisOnSomePort(t *testing.T, path, dir string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := l.Addr().String()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	require.NoError(t, l.Close())
	// The server listens on the socket after the port, if that is its own.
	socket := filepath.Join(dir, port)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--unixsocket", socket, "--save", "", "--appendonly", "no",
		"--dir", dir, "--requirepass", realPassword)
	require.NoError(t, cmd.Start())
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-exited
	})
	tooLong := time.After(10 * time.Second)
	for {
		if c, err := net.Dial("unix", socket); err == nil {
			_ = c.Close()
			return addr
		}
		select {
		case <-exited:
			return ""
		case <-tooLong:
			require.Fail(t, "the server does not listen")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
