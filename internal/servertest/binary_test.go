//go:build unix

package servertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// fakeProgram makes a program of that name in a directory of its own. It tells a version.
func fakeProgram(t *testing.T, name string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n[ \"$1\" != --version ] || exec echo 'Redis server v=7.0.15 sha=0'\necho 'no such directive: tls-port'; exit 1\n"), 0o700))
	return path
}

func TestBinaryOrder(t *testing.T) {
	redis, valkey, other := fakeProgram(t, "redis-server"), fakeProgram(t, "valkey-server"), fakeProgram(t, "other")
	t.Setenv(EnvServer, "")

	t.Setenv("PATH", filepath.Dir(valkey))
	path, ok := Binary()
	assert.True(t, ok)
	assert.Equal(t, valkey, path)

	t.Setenv("PATH", filepath.Dir(valkey)+":"+filepath.Dir(redis))
	path, ok = Binary()
	assert.True(t, ok)
	assert.Equal(t, redis, path)

	t.Setenv(EnvServer, other)
	path, ok = Binary()
	assert.True(t, ok)
	assert.Equal(t, other, path)

	t.Setenv(EnvServer, other+"-missing")
	_, ok = Binary()
	assert.False(t, ok, "a wrong REDIS_SERVER must not silently become another server")
}

func TestNoServerSkipsLoudly(t *testing.T) {
	t.Setenv(EnvServer, "")
	t.Setenv(EnvRequire, "")
	t.Setenv("PATH", t.TempDir())
	fake := runFake(t, func(tb testing.TB) { Single(tb) })
	assert.True(t, fake.skipped)
	assert.False(t, fake.failed)
	assert.Contains(t, fake.said, "NOT TESTED AGAINST A REAL SERVER")
	assert.Contains(t, fake.said, "apt-get install redis-server")
}

func TestNoServerFailsWhereRequired(t *testing.T) {
	t.Setenv(EnvServer, "/missing/redis-server")
	t.Setenv(EnvRequire, "1")
	fake := runFake(t, func(tb testing.TB) { Single(tb) })
	assert.True(t, fake.failed)
	assert.False(t, fake.skipped)
	assert.Contains(t, fake.said, "REDIS_SERVER=/missing/redis-server")
}

func TestServerWithoutTLSSkips(t *testing.T) {
	t.Setenv(EnvServer, fakeProgram(t, "redis-server"))
	t.Setenv(EnvRequire, "")
	fake := runFake(t, func(tb testing.TB) { TLS(tb) })
	assert.True(t, fake.skipped)
	assert.Contains(t, fake.said, "without TLS")
}
