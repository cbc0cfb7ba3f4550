//go:build linux

package harness

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// Between the two readings the test may lose the processor, so it has several goes.
func TestNowIsTheSystemsClock(t *testing.T) {
	off := time.Hour
	for range 1000 {
		before := monotonic()
		now := Now()
		after := monotonic()
		off = min(off, max(time.Duration(before-now), time.Duration(now-after), 0))
	}
	assert.LessOrEqual(t, off, time.Microsecond)
}

func BenchmarkNow(b *testing.B) {
	for b.Loop() {
		Now()
	}
}
