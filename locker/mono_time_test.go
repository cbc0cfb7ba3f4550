package locker

import (
	"reflect"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// Memory comes in sizes, of which these are two: a field more would cost each of 100 000 leases
// 32 bytes, and their lines 16.
func TestALeaseAndItsLineTakeNoMoreMemoryUnnoticed(t *testing.T) {
	if strconv.IntSize != 64 {
		t.Skip("sizes are those of 64 bits")
	}
	assert.LessOrEqual(t, reflect.TypeFor[tenure]().Size()+reflect.TypeFor[Lease]().Size(), uintptr(448))
	assert.LessOrEqual(t, reflect.TypeFor[line]().Size(), uintptr(96))
}

func TestMonoTime(t *testing.T) {
	check := func(t *testing.T) {
		at := time.Now()
		s := monoTimeOf(at)
		assert.NotZero(t, s)
		assert.True(t, s.time().Equal(at))
		assert.Equal(t, time.Second, (s + monoTime(time.Second)).sub(at))
		assert.True(t, s.after(at.Add(-1)))
		assert.False(t, s.after(at))
		assert.False(t, monoTime(0).after(at), "which is no time")
		assert.False(t, monoTime(0).after(at.Add(-time.Hour)), "which is no time")
	}
	check(t)
	synctest.Test(t, check) // whose clock shows another year
}
