package classics

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestQueueByTheClientsClock(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		require.NoError(t, Enqueue(t.Context(), a.Client, "q", "a", time.Now()))
		time.Sleep(30 * time.Second)
		require.NoError(t, Enqueue(t.Context(), b.Client, "q", "b", time.Now().Add(-time.Minute))) // b's clock is slow
		first, err := First(t.Context(), a.Client, "q")
		require.NoError(t, err)
		assert.Equal(t, "b", first, "who came half a minute later is first")
	})
	// What the order is made of is the server's: two clients whose only difference is
	// the order in which they come.
	bubble(t, func(t *testing.T, s server) {
		holder := mustTryLock(t, s.process(t).locks(t).Mutex("k"))
		order := make(chan string, 3)
		var all sync.WaitGroup
		for _, who := range []string{"a", "b", "c"} {
			m := s.process(t).locks(t).Mutex("k")
			all.Go(func() {
				lease, err := m.Lock(t.Context())
				if assert.NoError(t, err) {
					order <- who
					assert.NoError(t, lease.Unlock(t.Context()))
				}
			})
			synctest.Wait()
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, holder.Unlock(t.Context()))
		all.Wait()
		for _, who := range []string{"a", "b", "c"} {
			assert.Equal(t, who, <-order)
		}
	})
}

func TestTryThenSubscribe(t *testing.T) {
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		require.True(t, a.SetNX(t.Context(), "k", "a", ttl).Val())
		ctx, cancel := context.WithTimeout(t.Context(), 24*time.Hour)
		defer cancel()
		waited := make(chan error, 1)
		late := b.line.On(waitFor("SUBSCRIBE")) // the lock is given up before b listens
		go func() { waited <- TryThenSubscribe(ctx, b.Client, "k", "b", ttl) }()
		synctest.Wait()
		require.NoError(t, ReleaseAndPublish(t.Context(), a.Client, "k"))
		begun := time.Now()
		late.Release()
		assert.Error(t, <-waited)
		assert.Equal(t, 24*time.Hour, time.Since(begun), "it sleeps on a free lock")
		assert.False(t, s.Exists("k"))
	})
	bubble(t, func(t *testing.T, s server) {
		a, b := s.process(t), s.process(t)
		holder := mustTryLock(t, a.locks(t).Mutex("k"))
		m, waited := b.locks(t).Mutex("k"), make(chan error, 1)
		late := b.line.On(waitFor("SUBSCRIBE"))
		go func() {
			_, err := m.Lock(t.Context())
			waited <- err
		}()
		synctest.Wait()
		require.NoError(t, holder.Unlock(t.Context()))
		begun := time.Now()
		late.Release()
		require.NoError(t, <-waited)
		assert.Less(t, time.Since(begun), 2*time.Second)
	})
}
