package integration_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// What stands beside a lock may be deleted at any moment, by hand or because memory is short. As long as
// the record is there nobody else has the lock; whoever waits gets it; and no token is smaller than one
// before.
func TestWhatStandsBesideALockMayBeDeletedAtAnyMoment(t *testing.T) {
	t.Parallel()
	srv := servertest.Single(t)
	var clients []*locker.Client
	for _, d := range drivers {
		clients = append(clients, d.client(t, srv.Addr, locker.Fenced()), d.client(t, srv.Addr, locker.Fenced()))
	}
	running := 6 * time.Second
	if testing.Short() {
		running = time.Second
	}
	ctx, limit := within(t, running), within(t, running+patience)
	var all sync.WaitGroup
	for _, kind := range []lockKind{fencedKind, reentrantKind, writeKind} {
		guarded := new(atomic.Uint64) // by the lock
		for _, c := range clients {
			for range 3 { // so that they pass it along
				all.Go(func() { takeAndGive(t, ctx, limit, kind.on(c, kind.name), guarded) })
			}
		}
	}
	deleted := 0
	for ctx.Err() == nil {
		found := do(t, srv, "KEYS", "__golocker:[qwfv]:*").([]any)
		if len(found) > 0 {
			do(t, srv, "UNLINK", found[rand.IntN(len(found))].(string))
			deleted++
		}
		<-time.After(time.Duration(rand.IntN(4000)) * time.Microsecond)
	}
	all.Wait()
	assert.Greater(t, deleted, 10)
	assertMortal(t, srv)
}

// takeAndGive takes a fenced lock and gives it up again until ctx ends, each within limit. guarded is the
// last token, which nobody looks at who does not hold the lock.
func takeAndGive(t *testing.T, ctx, limit context.Context, m *locker.Mutex, guarded *atomic.Uint64) {
	for ctx.Err() == nil {
		lease, err := m.Lock(limit)
		if !assert.NoError(t, err, m.Name()) {
			return
		}
		token, before := uint64(lease.Token()), guarded.Load()
		assert.Greater(t, token, before, m.Name())
		if rand.IntN(4) == 0 {
			<-time.After(time.Duration(rand.IntN(2000)) * time.Microsecond)
		}
		assert.True(t, guarded.CompareAndSwap(before, token), "%s: two holders", m.Name())
		if !assert.NoError(t, lease.Unlock(limit), m.Name()) {
			return
		}
	}
}
