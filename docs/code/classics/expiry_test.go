package classics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

func TestSetNXThenExpire(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		a.line.On(wire.Match{Name: "EXPIRE"}, wire.CutRequest) // a dies between the two
		_, err := SetNXThenExpire(t.Context(), a.Client, "k", ttl)
		require.Error(t, err)
		time.Sleep(24 * time.Hour)
		ok, err := SetNXThenExpire(t.Context(), b.Client, "k", ttl)
		require.NoError(t, err)
		assert.False(t, ok, "it is locked for ever")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		for _, m := range []*locker.Mutex{a.locks(t).Mutex("plain"), a.locks(t).Mutex("fenced", locker.Fenced())} {
			mustTryLock(t, m)
			assert.Equal(t, ttl, s.TTL(m.Name()), "the command that takes it sets the TTL")
		}
		a.line.Partition()
		a.line.Refuse(true) // a dies
		time.Sleep(ttl)
		mustTryLock(t, b.locks(t).Mutex("plain"))
		mustTryLock(t, b.locks(t).Mutex("fenced", locker.Fenced()))
	})
}

func TestGetSet(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		ok, err := GetSet(t.Context(), a.Client, "k", ttl, time.Now())
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = GetSet(t.Context(), b.Client, "k", ttl, time.Now().Add(time.Minute)) // b's clock is fast
		require.NoError(t, err)
		assert.True(t, ok, "both have it")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t).locks(t), s.process(t).locks(t)
		mustTryLock(t, a.Mutex("k"))
		written, err := s.Get("k")
		require.NoError(t, err)
		time.Sleep(time.Second) // a client's clock would be seen in what it writes later
		_, err = b.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrLocked)
		now, err := s.Get("k")
		require.NoError(t, err)
		assert.Equal(t, written, now)
	})
}

func TestFromTheReply(t *testing.T) {
	const late = 1500 * time.Millisecond
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		a.line.On(wire.Match{Name: "SET"}, wire.Delay(late))
		until, err := FromTheReply(t.Context(), a.Client, "k", "a", ttl)
		require.NoError(t, err)
		time.Sleep(ttl - late) // the server's time is over
		_, err = FromTheReply(t.Context(), b.Client, "k", "b", ttl)
		require.NoError(t, err)
		assert.Equal(t, "b", b.Get(t.Context(), "k").Val())
		assert.True(t, time.Now().Before(until), "a believes that it has the lock, too")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		a.line.On(wire.Match{Name: "SET"}, wire.Delay(late))
		begun := time.Now()
		lease := mustTryLock(t, a.locks(t).Mutex("k", locker.NoRenewal()))
		assert.GreaterOrEqual(t, time.Since(begun), late)
		_, err := b.locks(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.False(t, lease.Valid())
		assert.Error(t, lease.Context().Err())
	})
}
