package locker

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
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
			s, d := h.join(&Mutex{}, time.Now()), rand.N(time.Minute)
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
		assert.Zero(t, h.timer.at, "nobody is woken when nobody sleeps")
	})
}

// Who is told before its time is none of them any more.
func TestWhoIsToldSleepsNoLonger(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, held := f.client(t), must(t, f.client(t).Mutex("k"))
		got := background(t, c.Mutex("k"))
		require.Len(t, c.hub.sleepers, 1)
		require.NoError(t, held.Unlock(t.Context()))
		require.NotNil(t, granted(got))
		assert.Empty(t, c.hub.sleepers)
	})
}

// Neither hides the other: the message may be a grant that is not good any more.
func TestMessageMeetsTheEndOfTheSleep(t *testing.T) {
	grant, look, hint, slept := wakeUp{seq: "7"}, wakeUp{look: true}, wakeUp{hint: true}, wakeUp{slept: true}
	for _, c := range []struct{ first, second, want wakeUp }{
		{grant, slept, wakeUp{seq: "7", slept: true}}, {slept, grant, wakeUp{seq: "7", slept: true}},
		{look, slept, wakeUp{look: true, slept: true}}, {slept, look, wakeUp{look: true, slept: true}},
		{hint, slept, wakeUp{hint: true, slept: true}}, {slept, hint, wakeUp{hint: true, slept: true}},
		{grant, hint, wakeUp{seq: "7", hint: true}}, {hint, grant, wakeUp{seq: "7", hint: true}},
		{look, grant, wakeUp{seq: "7", look: true}}, {grant, look, look},
		{wakeUp{seq: "6"}, grant, grant},
	} {
		h := idleHub(t)
		s := h.join(&Mutex{}, time.Time{})
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

// A delayed context stands for a goroutine that has no processor when it is about to wait.
type delayed struct {
	context.Context
	once sync.Once
	work func()
}

func (d *delayed) Done() <-chan struct{} {
	d.once.Do(d.work)
	return d.Context.Done()
}

// A grant for a place that the waiter had before says nothing about the present one.
func TestWaiterIsNotHeldUpByAGrantThatIsNotForItsPlace(t *testing.T) {
	for name, wake := range map[string]func(h *hub, s *slot){
		"the sleep ends after it":  func(h *hub, s *slot) { h.wake(s.reservation, wakeUp{seq: "1"}); time.Sleep(time.Second) },
		"the sleep ends before it": func(h *hub, s *slot) { time.Sleep(time.Second); h.wake(s.reservation, wakeUp{seq: "1"}) },
		"a hint after it":          func(h *hub, s *slot) { h.wake(s.reservation, wakeUp{seq: "1"}); h.wakeAll() },
		"a hint before it":         func(h *hub, s *slot) { h.wakeAll(); h.wake(s.reservation, wakeUp{seq: "1"}) },
		"a message before it": func(h *hub, s *slot) {
			h.wake(s.reservation, wakeUp{look: true})
			h.wake(s.reservation, wakeUp{seq: "1"})
		},
		"another grant before it, a message after it": func(h *hub, s *slot) {
			h.wake(s.reservation, wakeUp{seq: "2"})
			h.wake(s.reservation, wakeUp{seq: "1"})
			h.wake(s.reservation, wakeUp{look: true})
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				a, err := c.Mutex("k").begin(t.Context(), Owner{})
				require.NoError(t, err)
				defer a.end()
				a.listen(t.Context())
				a.stand, a.reason = standing{seq: "3", sent: now(), life: time.Hour}, &LockedError{Name: "k"}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				begun := time.Now()
				lease, _, err := a.sleep(&delayed{Context: ctx, work: func() { wake(c.hub, a.slot) }}, begun.Add(time.Millisecond))
				assert.NoError(t, err)
				assert.Nil(t, lease)
				assert.LessOrEqual(t, time.Since(begun), time.Second)
			})
		})
	}
}

// After a gap every waiter looks: the message that was missed may have been its own.
func TestGapWakesWhoWaits(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		h := m.client.hub
		slot := h.join(m, time.Now())
		defer h.leave(slot)
		synctest.Wait()
		h.refresh(slot)
		h.hear(driver.Message{}, driver.ErrGap)
		synctest.Wait()
		require.NotEmpty(t, slot.woken)
		assert.True(t, (<-slot.woken).hint)
	})
}
