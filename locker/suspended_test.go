package locker

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSuspensionEndsATerm(t *testing.T) {
	term := newTerm(now(), time.Minute)
	assert.InDelta(t, time.Minute-margin(time.Minute), term.left(suspended.now()), float64(time.Second))
	assert.Less(t, term.left(suspended.now()+2*time.Minute), time.Duration(0),
		"the machine slept two minutes, of which the monotonic clock knows nothing")
}

func TestUptimeRunsWithTheClock(t *testing.T) {
	if _, ok := uptime(); !ok {
		assert.NotEqual(t, "linux", runtime.GOOS)
		return
	}
	first := suspended.now()
	for range 1000 {
		assert.InDelta(t, first, suspended.now(), float64(suspendedNoise/2))
	}
}

func TestSuspensionIsNotSeenInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := suspended.recent()
		time.Sleep(time.Hour)
		assert.Equal(t, before, suspended.now())
	})
}

func BenchmarkSuspendedNow(b *testing.B) {
	for b.Loop() {
		suspended.now()
	}
}

func BenchmarkSuspendedRecent(b *testing.B) {
	for b.Loop() {
		suspended.recent()
	}
}
