package locker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// tardy has a node execute some requests late, so that others overtake them, and most if it is
// slow.
func (f *fakeDeployment) tardy(r *rand.Rand, slow bool) {
	var mu sync.Mutex
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			var d time.Duration
			mu.Lock()
			if x := r.IntN(10); x < 3 || slow && x < 8 {
				d = time.Duration(r.IntN(60000)) * time.Microsecond
			} else if x < 6 {
				d = time.Duration(r.IntN(3000)) * time.Microsecond
			}
			mu.Unlock()
			return wait(d)(ctx, cmd)
		}
	})
}

// Whatever overtakes what on the way to the nodes, none keeps a lock that has been released
// everywhere, or given up. CHAOS sets the number of seeds.
func TestQuorumHistoriesLeaveNothing(t *testing.T) {
	kinds := [][]Option{{}, {Fenced()}, {Reentrant()}}
	for seed := range uint64(chaosSeeds(24)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			quorumBubble(t, 3+2*int(seed%2), func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				cfg := QuorumConfig{NodeTimeout: 8 * time.Second} // none is so late that nothing is known
				clients := []*Client{nodes.client(t, cfg), nodes.client(t, cfg)}
				for _, c := range clients {
					meetAt(t, c, "k0")
					meetAt(t, c, "k1")
				}
				slow := int(seed) % len(nodes)
				for i, f := range nodes {
					f.tardy(rand.New(rand.NewPCG(seed, uint64(i))), i == slow)
				}
				var wg sync.WaitGroup
				for g := range 2 + seed%3 {
					w := orphanWorker{t, clients, kinds[seed%3], rand.New(rand.NewPCG(seed, 100+g))}
					wg.Go(func() {
						for range 6 {
							w.work()
						}
					})
				}
				wg.Wait()
				time.Sleep(20 * time.Second)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k0"))
				assert.Zero(t, nodes.holding("k1"))
			})
		})
	}
}

type orphanWorker struct {
	t       *testing.T
	clients []*Client
	opts    []Option
	r       *rand.Rand
}

func (w orphanWorker) mutex(name string) *Mutex {
	return w.clients[w.r.IntN(len(w.clients))].Mutex(name, w.opts...)
}

func (w orphanWorker) take(m *Mutex) (*Lease, error) {
	if w.r.IntN(2) == 0 {
		return m.TryLock(w.t.Context())
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Duration(w.r.IntN(200000))*time.Microsecond)
	defer cancel()
	return m.Lock(ctx)
}

func (w orphanWorker) work() {
	m := w.mutex(fmt.Sprint("k", w.r.IntN(2)))
	lease, err := w.take(m)
	if err != nil {
		return
	}
	if w.r.IntN(3) > 0 {
		time.Sleep(time.Duration(w.r.IntN(5000)) * time.Microsecond)
	}
	if w.r.IntN(4) == 0 {
		id, err := lease.Detach(w.t.Context(), 10*time.Second)
		if !assert.NoError(w.t, err) {
			return
		}
		takers := sync.WaitGroup{}
		defer takers.Wait()
		taken := atomic.Int32{}
		for range 1 + w.r.IntN(2) {
			m := w.mutex(m.Name())
			takers.Go(func() {
				for begun := time.Now(); taken.Load() == 0; {
					if !assert.Less(w.t, time.Since(begun), time.Minute, "nobody can take the lease up") {
						return
					}
					lease, err := m.Attach(w.t.Context(), id)
					if err == nil {
						assert.EqualValues(w.t, 1, taken.Add(1), "takers that had the lease")
						assert.NoError(w.t, lease.Unlock(w.t.Context()))
					}
				}
			})
		}
		return
	}
	assert.NoError(w.t, lease.Unlock(w.t.Context()))
}
