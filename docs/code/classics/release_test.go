package classics

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

func TestDelete(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b, c := s.process(t), s.process(t), s.process(t)
		ok, err := TakeAnonymously(t.Context(), a.Client, "k", ttl)
		require.NoError(t, err)
		require.True(t, ok)
		time.Sleep(ttl) // a takes longer than that
		ok, err = TakeAnonymously(t.Context(), b.Client, "k", ttl)
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, Delete(t.Context(), a.Client, "k"))
		ok, err = TakeAnonymously(t.Context(), c.Client, "k", ttl)
		require.NoError(t, err)
		assert.True(t, ok, "b and c have it")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b, c := s.process(t), s.process(t), s.process(t)
		lost := mustTryLock(t, a.locks(t).Mutex("k", locker.NoRenewal()))
		time.Sleep(ttl)
		lease := mustTryLock(t, b.locks(t).Mutex("k"))
		assert.ErrorIs(t, lost.Unlock(t.Context()), locker.ErrTaken)
		_, err := c.locks(t).Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrLocked)
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestGetThenDelete(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b, c := s.process(t), s.process(t), s.process(t)
		require.NoError(t, a.SetNX(t.Context(), "k", "a", ttl).Err())
		late := a.line.On(wire.Match{Name: "DEL"}, wire.HoldRequest)
		go func() { _ = GetThenDelete(t.Context(), a.Client, "k", "a") }() // it is a's, says GET
		synctest.Wait()
		time.Sleep(ttl)
		require.True(t, b.SetNX(t.Context(), "k", "b", ttl).Val())
		late.Release()
		synctest.Wait()
		assert.True(t, c.SetNX(t.Context(), "k", "c", ttl).Val(), "b and c have it")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b, c := s.process(t), s.process(t), s.process(t)
		lost := mustTryLock(t, a.locks(t).Mutex("k", locker.NoRenewal()))
		late := a.line.On(wire.Match{Name: "EVALSHA"}, wire.HoldRequest)
		go func() { _ = lost.Unlock(t.Context()) }()
		synctest.Wait()
		time.Sleep(ttl)
		lease := mustTryLock(t, b.locks(t).Mutex("k"))
		late.Release()
		synctest.Wait()
		_, err := c.locks(t).Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrLocked)
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}

// The client library sends a command again whose reply was lost.
func TestResentSetNX(t *testing.T) {
	server, rdb, line := resending(t)
	line.On(wire.Match{Name: "SET"}, wire.CutReply)
	ok, err := rdb.SetNX(t.Context(), "k", "a", ttl).Result()
	require.NoError(t, err)
	assert.False(t, ok, "we have it, and are told that we have not")
	assert.True(t, server.Exists("k"))

	line.On(wire.Match{Name: "SET"}, wire.CutReply)
	lease := mustTryLock(t, process{rdb, line}.locks(t).Mutex("ours"))
	assert.NoError(t, lease.Unlock(t.Context()))
	assert.False(t, server.Exists("ours"))
}
