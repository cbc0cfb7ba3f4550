package locker

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A process that has no descriptor left when it takes its first lock learns of suspensions from when it
// has one. It is one of its own here, in which nothing else has asked before.
func TestUptimeIsToldOnceTheProcessHasADescriptor(t *testing.T) {
	const role = "GOLOCKER_SCARCE"
	if os.Getenv(role) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), role+"=1")
		said, err := cmd.CombinedOutput()
		assert.NoError(t, err, "%s", said)
		return
	}
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}))
	_, without := uptime()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	_, with := uptime()
	assert.False(t, without)
	assert.True(t, with)
}
