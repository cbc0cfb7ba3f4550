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

// Between the readings of the two clocks a process may be without a processor for long,
// which is no suspension: its leases would seem to be over early.
func TestAStallBetweenTheClocksIsNoSuspension(t *testing.T) {
	begun, readings := time.Now(), 0
	clock := &suspendClock{start: begun, uptime: func() (time.Duration, bool) {
		if readings++; readings%2 == 0 {
			<-time.After(2 * suspendedNoise)
		}
		return time.Since(begun), true
	}}
	for range 3 {
		assert.InDelta(t, 0, clock.now(), float64(suspendedNoise/2))
	}
}

func TestSuspensionIsNotSeenInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := suspended.recent(time.Now())
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
		suspended.recent(time.Now())
	}
}
