package integration_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// exclusion notices two holders at once (I1): a holder may only enter when the one
// before has left, or its context has ended.
type exclusion struct {
	mu     sync.Mutex
	holder *locker.Lease
	ctx    context.Context
	token  locker.Token
	count  int
	left   time.Time
	gap    time.Duration // the longest time that nobody held the lock
}

func (e *exclusion) enter(t *testing.T, lease *locker.Lease) {
	t.Helper()
	ctx := lease.Context()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder != nil {
		assert.Error(t, e.ctx.Err(), "two holders at once")
	}
	if lease.Token() != 0 {
		assert.Greater(t, lease.Token(), e.token, "a later grant without a larger token")
	}
	if e.holder == nil && e.count > 0 {
		e.gap = max(e.gap, time.Since(e.left))
	}
	e.holder, e.ctx, e.token = lease, ctx, lease.Token()
	e.count++
}

// had tells whether anybody has held the lock.
func (e *exclusion) had() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.count > 0
}

// leave comes before Unlock.
func (e *exclusion) leave(lease *locker.Lease) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder == lease {
		e.holder, e.left = nil, time.Now()
	}
}

// I1, I3, I5 and I7 on lines on which requests and replies are lost, held back
// and sent twice, connections break and partitions come and go.
func TestNoTwoHoldersAndGrowingTokensOnLinesThatFail(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const clients, workers = 3, 2
		var held exclusion
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		time.AfterFunc(4*time.Second, func() {
			becomes(patience, held.had) // on a machine that is busy it takes longer
			cancel()
		})
		var all sync.WaitGroup
		for range clients {
			w, addr := newWire(t, srv.Addr)
			c := d.client(t, addr, locker.Fenced(), locker.TTL(600*time.Millisecond), locker.AttemptTimeout(200*time.Millisecond))
			connect(t, c)
			all.Go(func() { trouble(ctx, w) })
			for range workers {
				all.Go(func() {
					for ctx.Err() == nil {
						lease, err := c.Mutex("k").Lock(ctx)
						if err != nil {
							continue
						}
						held.enter(t, lease)
						select {
						case <-time.After(rand.N(80 * time.Millisecond)):
						case <-lease.Context().Done():
						}
						held.leave(lease)
						_ = lease.Unlock(context.WithoutCancel(ctx))
					}
				})
			}
		}
		all.Wait()
		assert.Positive(t, held.count, "there was no grant")
		t.Logf("%d grants", held.count)
		// After faults heal, the lock can be had as soon as the last reservation has
		// ended whose end the server has not heard of, and the lease granted to it.
		last := d.client(t, srv.Addr, locker.Fenced())
		took := timed(func() { held.enter(t, mustLock(t, last.Mutex("k"))) })
		assert.Less(t, took, reservationLife+600*time.Millisecond+pollBound)
		assertMortal(t, srv)
	})
}

// trouble makes w fail at random until ctx ends, and is over then.
func trouble(ctx context.Context, w *wire.Wire) {
	actions := []wire.Action{wire.CutRequest, wire.CutReply, wire.HalfReply, wire.Duplicate,
		wire.HoldRequest, wire.HoldReply, wire.Delay(50 * time.Millisecond)}
	for ctx.Err() == nil {
		for range 3 {
			rule := w.On(wire.Match{Name: "EVALSHA", Skip: rand.IntN(4)}, actions[rand.IntN(len(actions))])
			time.AfterFunc(rand.N(300*time.Millisecond), rule.Release)
			defer rule.Release()
			defer rule.Remove()
		}
		select {
		case <-time.After(rand.N(300 * time.Millisecond)):
		case <-ctx.Done():
		}
		switch rand.IntN(6) {
		case 0:
			w.KillAll()
		case 1, 2:
			w.Partition()
			select {
			case <-time.After(rand.N(800 * time.Millisecond)):
			case <-ctx.Done():
			}
			w.Heal()
		}
	}
}
