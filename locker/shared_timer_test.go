package locker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A timer that has expired from the start would have run, and not be there to be stopped.
func TestSharedTimerThatIsLateIsNotFiredAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := sharedTimer{fire: func() {}}
		for _, how := range []string{"made", "used again"} {
			a.fireBy(time.Now().Add(-time.Second))
			assert.True(t, a.timer.Stop(), how)
			a.stop()
		}
	})
}

func TestEndOfATurnThatIsOverIsNotMetAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(2 * turnTime)
		held := lease.tenure
		held.mu.Lock()
		defer held.mu.Unlock()
		turn := held.inTurn()
		for _, how := range []string{"made", "used again"} {
			held.watchTurn(time.Now())
			assert.True(t, turn.timer.Stop(), how)
		}
	})
}
