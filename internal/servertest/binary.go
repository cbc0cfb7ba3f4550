package servertest

import (
	"os"
	"os/exec"
	"testing"
)

// Environment variables that this package obeys.
const (
	// EnvServer names the server program to run.
	EnvServer = "REDIS_SERVER"
	// EnvRequire, set to 1, makes a missing server a failure instead of a skip.
	EnvRequire = "REQUIRE_REDIS"
)

// Binary returns the path of the server program that tests will run, and whether
// there is one. If the environment has REDIS_SERVER, nothing else is looked for.
func Binary() (path string, ok bool) {
	names := []string{"redis-server", "valkey-server"}
	if name := os.Getenv(EnvServer); name != "" {
		names = []string{name}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// Require returns the path of the server program. Where there is none it skips the test, or fails
// it if REQUIRE_REDIS is 1.
func Require(tb testing.TB) string {
	tb.Helper()
	path, ok := Binary()
	if !ok {
		unavailable(tb, "there is no redis-server or valkey-server on PATH")
	}
	return path
}

// unavailable skips the test, or fails it where servers are required.
func unavailable(tb testing.TB, reason string) {
	tb.Helper()
	if name := os.Getenv(EnvServer); name != "" {
		reason += " (REDIS_SERVER=" + name + ")"
	}
	const remedy = "install one (Debian: apt-get install redis-server; macOS: brew install redis)" +
		" or set REDIS_SERVER to the program's path"
	if os.Getenv(EnvRequire) == "1" {
		tb.Fatalf("servertest: REQUIRE_REDIS=1, but %s: %s", reason, remedy)
	}
	tb.Skipf("servertest: NOT TESTED AGAINST A REAL SERVER: %s: %s", reason, remedy)
}
