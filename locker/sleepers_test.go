package locker

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// idleHub is one that subscribes to nothing.
func idleHub(t *testing.T) *hub {
	h := newHub(nil)
	h.running = true
	t.Cleanup(h.close)
	return h
}

// One timer wakes all, each at its own time, and those who have got up before not.
func TestSleepersAreWokenAtTheirTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := idleHub(t)
		for range 200 {
			s, d := h.join(nil, time.Now()), rand.N(time.Minute)
			if rand.N(3) == 0 {
				h.sleep(s, time.Now().Add(d))
				h.getUp(s)
				time.AfterFunc(2*time.Minute, func() { assert.Empty(t, s.woken) })
				continue
			}
			go func() {
				defer h.leave(s)
				begun := time.Now()
				for range 3 {
					h.sleep(s, time.Now().Add(d))
					assert.Equal(t, wakeUp{slept: true}, <-s.woken)
					h.getUp(s)
				}
				assert.Equal(t, 3*d, time.Since(begun))
			}()
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		assert.Empty(t, h.sleepers)
		assert.Zero(t, h.alarm.at, "nobody is woken when nobody sleeps")
	})
}

// The end of the sleep does not hide a message, and is hidden by one.
func TestMessageMeetsTheEndOfTheSleep(t *testing.T) {
	message, hint, slept := wakeUp{seq: "7"}, wakeUp{hint: true}, wakeUp{slept: true}
	for _, c := range []struct{ first, second, want wakeUp }{
		{message, slept, message}, {slept, message, message},
		{hint, slept, hint}, {slept, hint, hint},
		{message, hint, message}, {hint, message, message},
	} {
		h := idleHub(t)
		s := h.join(nil, time.Time{})
		for _, w := range []wakeUp{c.first, c.second} {
			if w.slept {
				h.sleep(s, time.Now())
				h.rouse()
			} else {
				s.wake(w)
			}
		}
		require.Equal(t, c.want, <-s.woken, "%+v, then %+v", c.first, c.second)
		h.getUp(s)
	}
}
