//go:build unix

package servertest

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// offBy returns by how much the server's clock differs from ours.
func offBy(t *testing.T, s *Server) time.Duration {
	t.Helper()
	seconds, err := strconv.ParseInt(do(t, s, "TIME").([]any)[0].(string), 10, 64)
	require.NoError(t, err)
	return time.Until(time.Unix(seconds, 0))
}

func TestClockIsSetWhileTheServerRuns(t *testing.T) {
	clock := NewClock(t)
	s, other := Single(t, clock.Option()), Single(t)
	const slack = float64(10 * time.Second)
	// Valkey 9 reads a clock of the processor, and looks at the system's now and then.
	awaitOff := func(off time.Duration) {
		t.Helper()
		assert.Eventually(t, func() bool { return math.Abs(float64(off-offBy(t, s))) < slack }, 20*time.Second, 10*time.Millisecond, "off by %v", off)
	}
	for _, off := range []time.Duration{0, time.Minute, -time.Minute, 0} {
		clock.Set(off)
		awaitOff(off)
		assert.InDelta(t, 0, offBy(t, other), slack)
	}
	do(t, s, "SET", "k", "v", "PX", "30000")
	clock.Set(time.Minute)
	awaitOff(time.Minute)
	assert.Nil(t, do(t, s, "GET", "k"), "its time has come")
	s.Restart()
	awaitOff(time.Minute)
}
