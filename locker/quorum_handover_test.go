package locker

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// Whoever waits has the lock soon after it was released, however many wait with it: those
// that were told at once and came too late do not hold back for longer and longer.
func TestQuorumHandsOverSoon(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, f := range nodes {
			delay := func(ctx context.Context, cmd driver.Command) error {
				return wait(100*time.Microsecond+rand.N(400*time.Microsecond))(ctx, cmd)
			}
			f.set(func() { f.before, f.after = delay, delay })
		}
		var mu sync.Mutex
		var gaps []time.Duration
		var released time.Time
		var wg sync.WaitGroup
		for range 4 {
			c := nodes.client(t, QuorumConfig{})
			for range 3 {
				wg.Go(func() {
					for range 8 {
						lease, err := c.Mutex("k").Lock(t.Context())
						if !assert.NoError(t, err) {
							return
						}
						mu.Lock()
						gaps = append(gaps, time.Since(released))
						mu.Unlock()
						time.Sleep(2 * time.Millisecond)
						mu.Lock()
						released = time.Now()
						mu.Unlock()
						assert.NoError(t, lease.Unlock(t.Context()))
					}
				})
			}
		}
		wg.Wait()
		gaps = gaps[1:]
		slices.Sort(gaps)
		n := len(gaps)
		t.Logf("median %v, 95%% %v, all %v; %d requests", gaps[n/2], gaps[n*95/100], gaps[n-1], len(nodes[0].commands())/n)
		assert.Less(t, gaps[n-1], 200*time.Millisecond)
	})
}

// A node that the lease had not come to, or that has forgotten it, does not make a lease that
// somebody has taken up one that nobody has.
func TestQuorumAttachSaysTakenThoughANodeHasNothing(t *testing.T) {
	for without := range 3 {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
			lease := must(t, a.Mutex("k"))
			time.Sleep(2 * restPause)
			id, err := lease.Detach(t.Context(), DefaultTTL)
			require.NoError(t, err)
			synctest.Wait()
			_, err = b.Mutex("k").Attach(t.Context(), id)
			require.NoError(t, err)
			synctest.Wait()
			nodes[without].Del("k")
			_, err = a.Mutex("k").Attach(t.Context(), id)
			assert.ErrorIs(t, err, ErrTaken, "node %d has nothing", without)
		})
	}
}
