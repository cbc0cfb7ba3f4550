package locker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever has lately waited for a lock asks for a place in its queue at once, so that a
// turn costs one script to come and one to go.
func TestTurnAtAContendedLockIsTwoRequests(t *testing.T) {
	for name, opts := range map[string][]Option{"mutex": nil, "fenced": {Fenced()}, "writer": {ForWriting()}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				a, b := f.client(t).Mutex("k", opts...), f.client(t).Mutex("k", opts...)
				held, err := a.Lock(t.Context())
				require.NoError(t, err)
				for turn := range 4 {
					f.reset()
					got := background(t, b)
					synctest.Wait()
					require.NoError(t, held.Unlock(t.Context()))
					held = granted(got)
					require.NotNil(t, held)
					if turn > 1 { // both have met the other
						assert.Equal(t, []string{"EVALSHA", "EVALSHA"}, f.commands())
					}
					a, b = b, a
				}
			})
		})
	}
}

func TestContentionIsForgotten(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		got := background(t, c.Mutex("k"))
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		lease := granted(got)
		require.NotNil(t, lease)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(contendedFor + time.Millisecond)
		f.reset()
		lease, err = c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		assert.Equal(t, []string{"SET", "EVALSHA"}, f.commands())
	})
}

// A lock that is thought to be contended and is free is taken like any other.
func TestContendedLockThatIsFree(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for _, opts := range [][]Option{nil, {Fenced()}, {ForWriting()}, {ForReading()}, {Reentrant()}} {
			m := c.Mutex("k", opts...)
			c.contention.meet("k", time.Now())
			f.reset()
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			assert.Equal(t, []string{"EVALSHA"}, f.commands())
			assert.NotContains(t, f.Keys(), m.keys.queue)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		time.Sleep(time.Minute)
		c.Close()
		for _, key := range f.Keys() {
			assert.Contains(t, key, sidePrefix+"f", "only a fence may be left")
		}
	})
}
