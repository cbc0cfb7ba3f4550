package starvation_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	_ "github.com/golocker/golocker/drivers/goredis"
	_ "github.com/golocker/golocker/drivers/redigo"
	_ "github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/robustness/nemesis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

var (
	leases       = flag.Int("leases", 300, "how many leases are lost")
	ttl          = flag.Duration("ttl", 2*time.Second, "the lease time")
	perProcessor = flag.Int("hogs", 3, "how many processes want each processor")
)

// margin is how late the context of a lease may end, without which I2 of
// docs/guarantees.md would not hold.
func margin() time.Duration { return max(*ttl/20, 100*time.Millisecond) }

const (
	// atOnce is how many leases are lost at a time.
	atOnce = 500
	// patience is how long a test waits for what happens soon on a machine that is not
	// so busy.
	patience = 2 * time.Minute
)

var drivers = []string{"goredis", "rueidis", "redigo"}

// A loss is a way to lose leases. It returns what undoes it, which is called when their
// time on the server is over.
type loss struct {
	name string
	make func(*servertest.Server, *wire.Wire) (undo func())
}

var losses = []loss{
	{"partition", func(_ *servertest.Server, w *wire.Wire) func() { w.Partition(); return w.Heal }},
	{"one-way", func(_ *servertest.Server, w *wire.Wire) func() { w.PartitionReplies(); return w.Heal }},
	{"server stopped", func(s *servertest.Server, _ *wire.Wire) func() { s.Pause(); return s.Resume }},
}

func TestLostLeasesEndInTimeOnAStarvedMachine(t *testing.T) {
	all := &figures{}
	rounds := max(len(drivers), (*leases+atOnce-1)/atOnce)
	for i := range rounds {
		n := *leases/rounds + min(1, *leases%rounds)
		driver, how := drivers[i%len(drivers)], losses[(i+i/len(drivers))%len(losses)]
		t.Run(fmt.Sprintf("%d %s %s", i, driver, how.name), func(t *testing.T) { lose(t, n, driver, how, all) })
	}
	t.Log(all)
	assert.Zero(t, all.beside, "leases were valid beside a second holder")
	assert.Zero(t, all.early, "contexts ended before the deadline")
	assert.Zero(t, all.late, "contexts ended too late though plain ones were in time")
	assert.Zero(t, all.running, "contexts had not ended when somebody else had the lock, though plain ones were in time")
}

// lose takes n locks, loses all leases, and notes when their contexts end and others have
// the locks.
func lose(t *testing.T, n int, driver string, how loss, all *figures) {
	server := servertest.Single(t)
	line := wire.New(wire.TCP(server.Addr))
	defer line.Close()
	through, err := line.Listen()
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	first, err := locker.Open(driver, "redis://"+through, locker.TTL(*ttl))
	require.NoError(t, err)
	defer first.Close()
	second, err := locker.Open(driver, "redis://"+server.Addr, locker.TTL(10*time.Second), locker.NoRenewal())
	require.NoError(t, err)
	defer second.Close()
	// A client that was never answered does not wait for a server that does not answer.
	warm, err := second.Mutex("warm").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, warm.Unlock(ctx))

	held := make([]*holding, n)
	var busy sync.WaitGroup
	for i := range held {
		busy.Go(func() {
			lease, err := first.Mutex(fmt.Sprintf("lock-%d", i)).Lock(ctx)
			if assert.NoError(t, err) {
				held[i] = hold(lease)
			}
		})
	}
	busy.Wait()
	require.NotContains(t, held, (*holding)(nil))

	stop, err := nemesis.Hogs(*perProcessor)
	require.NoError(t, err)
	defer stop()
	// The leases are in all states of their renewal.
	time.Sleep(rand.N(*ttl / 3))
	undo := how.make(server, line)
	broken := time.Now()
	for _, h := range held {
		busy.Go(h.watch)
		busy.Go(func() {
			next, err := second.Mutex(h.lease.Name()).Lock(ctx)
			granted := time.Now()
			// Err comes before Valid, which would end the context.
			running, valid := h.lease.Context().Err() == nil, h.lease.Valid()
			if !assert.NoError(t, err) {
				return
			}
			h.next <- grant{granted, running, valid}
			_ = next.Unlock(ctx) // else it lapses
		})
	}
	time.Sleep(time.Until(broken.Add(*ttl)))
	undo()
	busy.Wait()
	all.add(held)
}

// A holding is a lease that is going to be lost.
type holding struct {
	lease *locker.Lease
	ended chan time.Time
	next  chan grant

	deadline time.Time
	timer    time.Time // when a plain context ended whose timer was set to the deadline
}

// A grant is how somebody else got the lock, and what the first holder believed then.
type grant struct {
	at             time.Time
	running, valid bool
}

func hold(lease *locker.Lease) *holding {
	h := &holding{lease: lease, deadline: lease.Deadline(), ended: make(chan time.Time, 1), next: make(chan grant, 1)}
	context.AfterFunc(lease.Context(), func() { h.ended <- time.Now() })
	return h
}

// watch learns the last deadline, and how late a plain context is whose timer is set to it.
func (h *holding) watch() {
	// To ask for the deadline of a lease that is over would end its context.
	never := *ttl / 10
	for time.Until(h.deadline) > never {
		if d := h.lease.Deadline(); !d.IsZero() {
			h.deadline = d
		}
		time.Sleep(never)
	}
	plain, cancel := context.WithCancel(context.Background())
	fired := make(chan time.Time, 1)
	context.AfterFunc(plain, func() { fired <- time.Now() })
	time.AfterFunc(time.Until(h.deadline), cancel)
	h.timer = <-fired
}
