package history_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/internal/robustness/history"
)

func TestBothClocksAreOne(t *testing.T) {
	const noise = time.Millisecond
	before, read, after := history.Now(), time.Now(), history.Now()
	assert.GreaterOrEqual(t, history.Of(read), before.Add(-noise))
	assert.LessOrEqual(t, history.Of(read), after.Add(noise))
	assert.Equal(t, time.Minute, history.Of(read.Add(time.Minute)).Sub(history.Of(read)))
}
