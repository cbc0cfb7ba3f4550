package classics

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/locker"
)

// A script is not undone when one of its commands fails.
func TestHashBeforeExpire(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		_, err := CountUp(t.Context(), a.Client, "k", "a", "1500.5")
		require.ErrorContains(t, err, "not an integer")
		time.Sleep(24 * time.Hour)
		ok, err := CountUp(t.Context(), b.Client, "k", "b", "10000")
		require.NoError(t, err)
		assert.False(t, ok, "it is locked for ever")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t).locks(t), s.process(t).locks(t)
		odd := locker.TTL(1500*time.Millisecond + 500*time.Microsecond)
		mustTryLock(t, a.Mutex("k", locker.Reentrant(), locker.NoRenewal(), odd))
		assert.Equal(t, 1500*time.Millisecond, s.TTL("k"))
		time.Sleep(1500 * time.Millisecond)
		mustTryLock(t, b.Mutex("k", locker.Reentrant()))
	})
}

func TestResentCount(t *testing.T) {
	server, rdb, line := resending(t)
	line.On(wire.Match{Name: "EVAL"}, wire.CutReply)
	ok, err := CountUp(t.Context(), rdb, "k", "a", "10000")
	require.NoError(t, err)
	require.True(t, ok)
	require.NoError(t, CountDown(t.Context(), rdb, "k", "a"))
	assert.True(t, server.Exists("k"), "what was taken once and given up once is still held")

	m := process{rdb, line}.locks(t).Mutex("ours", locker.Reentrant())
	require.NoError(t, mustTryLock(t, m).Unlock(t.Context())) // the script is known to the server
	lost := line.On(wire.Match{Name: "EVALSHA"}, wire.CutReply)
	require.NoError(t, mustTryLock(t, m).Unlock(t.Context()))
	assert.Equal(t, 1, lost.Applied())
	assert.False(t, server.Exists("ours"))
}

func TestSharedTTL(t *testing.T) {
	const short = 300 * time.Millisecond
	bubble(t, func(t *testing.T, s server) {
		a, b, w := s.process(t), s.process(t), s.process(t)
		require.NoError(t, TakeReading(t.Context(), a.Client, "k", ttl))
		require.NoError(t, TakeReading(t.Context(), b.Client, "k", short)) // and crashes
		time.Sleep(short)
		ok, err := TakeWriting(t.Context(), w.Client, "k", ttl)
		require.NoError(t, err)
		assert.True(t, ok, "there is a writer, and a reads")
	})
	bubble(t, func(t *testing.T, s server) {
		a, b, w := s.process(t).locks(t), s.process(t).locks(t), s.process(t).locks(t)
		long := mustTryLock(t, a.Mutex("k", locker.ForReading(), locker.NoRenewal()))
		mustTryLock(t, b.Mutex("k", locker.ForReading(), locker.NoRenewal(), locker.TTL(short)))
		time.Sleep(short)
		_, err := w.Mutex("k", locker.ForWriting()).TryLock(t.Context())
		assert.ErrorIs(t, err, locker.ErrLocked)
		_, err = w.Mutex("k", locker.ForWriting()).Lock(t.Context())
		require.NoError(t, err)
		assert.False(t, long.Valid())
	})
}
