package classics

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// waitFor holds a request back.
func waitFor(name string) (wire.Match, wire.Action) {
	return wire.Match{Name: name}, wire.HoldRequest
}

func TestWatchdogThatOutlivesTheUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b, c := s.process(t), s.process(t), s.process(t)
		forgotten, stop := context.WithCancel(t.Context())
		defer stop()
		require.True(t, a.SetNX(t.Context(), "k", "a", ttl).Val())
		go KeepAlive(forgotten, a.Client, "k", ttl)
		require.NoError(t, GetThenDelete(t.Context(), a.Client, "k", "a"))

		require.True(t, b.SetNX(t.Context(), "k", "b", ttl).Val()) // and b crashes
		time.Sleep(24 * time.Hour)
		assert.False(t, c.SetNX(t.Context(), "k", "c", ttl).Val(), "a keeps alive what b has left")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b, c := s.process(t), s.process(t), s.process(t)
		lease := mustTryLock(t, a.locks(t).Mutex("k"))
		time.Sleep(2 * ttl) // it has been renewed
		require.NoError(t, lease.Unlock(t.Context()))
		mustTryLock(t, b.locks(t).Mutex("k", locker.NoRenewal()))
		time.Sleep(ttl)
		mustTryLock(t, c.locks(t).Mutex("k"))
	})
}

func TestWatchdogThatTellsNobody(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		work, stop := context.WithCancel(t.Context())
		defer stop()
		require.True(t, a.SetNX(t.Context(), "k", "a", ttl).Val())
		go KeepAlive(work, a.Client, "k", ttl)
		a.line.Refuse(true)
		a.line.KillAll() // a cannot reach the server any more
		time.Sleep(2 * ttl)
		require.True(t, b.SetNX(t.Context(), "k", "b", ttl).Val())
		assert.NoError(t, work.Err(), "a and b work at the same time")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		lease := mustTryLock(t, a.locks(t).Mutex("k"))
		work := lease.Context()
		a.line.Refuse(true)
		a.line.KillAll()
		_, err := b.locks(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.ErrorIs(t, context.Cause(work), locker.ErrLost)
	})
}
