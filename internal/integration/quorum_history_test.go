package integration_test

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// The history runs for so long as the first says, such as 3m, and on until there were
// so many fenced grants; from this seed.
const (
	historyTime   = "QUORUM_HISTORY"
	historyGrants = "QUORUM_GRANTS"
	historySeed   = "QUORUM_HISTORY_SEED"
)

// Many goroutines of several clients, one for each driver and one for the mix of
// them, take all kinds of lock while nodes and lines fail at random, and no two hold a
// lock at once (I1), tokens grow in the order of grants (I3), nothing outlives its TTL (I6)
// and when the faults are over every lock can be had (I7).
func TestQuorumHistory(t *testing.T) {
	t.Parallel()
	length, err := time.ParseDuration(orElse(os.Getenv(historyTime), "8s"))
	require.NoError(t, err, historyTime)
	target, err := strconv.ParseInt(orElse(os.Getenv(historyGrants), "0"), 10, 64)
	require.NoError(t, err, historyGrants)
	seed := orElse(os.Getenv(historySeed), time.Now().Format("150405.000"))
	t.Logf("%s=%s %s=%s", historyTime, length, historySeed, seed)
	source := func(name string) *rand.Rand {
		var key [32]byte
		copy(key[:], seed+" "+name)
		return rand.New(rand.NewChaCha8(key))
	}

	const ttl, longest = 1200 * time.Millisecond, 2 * time.Second
	workers := 24
	if os.Getenv(historyTime) == "" && os.Getenv(historyGrants) == "" {
		workers = 8 // beside other tests, so many would wait for a processor until no node has answered in time
	}
	cfg := redlock.Config{LongestTTL: longest, NodeTimeout: 250 * time.Millisecond}
	q := newFleet(t, crews["mixed"], servertest.Servers(t, 5))
	var all [][]*shaky
	var clients []*locker.Client
	for name, crew := range crews {
		var connectors []driver.Connector
		var lines []*shaky
		q := fleet{q.servers, crew}
		for i, c := range q.connectors(t, q.addrs()) {
			l := &shaky{rand: source(numbered(name, i))}
			lines = append(lines, l)
			connectors = append(connectors, shakyConnector{c, l})
		}
		c, err := redlock.New(connectors, cfg, locker.TTL(ttl), locker.AttemptTimeout(500*time.Millisecond))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		warm(t, c)
		all, clients = append(all, lines), append(clients, c)
	}

	var h history
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := time.Now()
	go func() {
		defer cancel()
		<-time.After(length)
		becomes(time.Hour, func() bool { return h.fenced.Load() >= max(target, 1) })
	}()
	var busy sync.WaitGroup
	busy.Go(func() { makeTrouble(ctx, source("trouble"), q, all, longest) })
	for i, c := range clients {
		for n := range workers {
			r := source(numbered("worker", workers*i+n))
			busy.Go(func() {
				for ctx.Err() == nil {
					h.step(ctx, t, r, c)
				}
			})
		}
	}
	busy.Wait()
	t.Logf("%v: %d grants, %d of them fenced, %d of leases that ended before they were used; %d lost, %d left to lapse; %d times there was no majority; %d violations",
		time.Since(begun).Round(time.Second), h.grants.Load(), h.fenced.Load(), h.stale.Load(), h.lost.Load(), h.crashed.Load(), h.failed.Load(), h.violations.Load())
	assert.GreaterOrEqual(t, h.fenced.Load(), max(target, 1))

	healed := time.Now()
	// It has yet to connect, which takes longer than the nodes were given where all is busy.
	last := q.client(t, redlock.Config{LongestTTL: longest, NodeTimeout: patience}, locker.TTL(longest))
	for i := range h.registers {
		name, kind := h.lock(i)
		lease := mustLock(t, kind.on(last, name))
		assert.True(t, h.registers[i].enter(t, &h, lease, true))
		mustUnlock(t, lease)
	}
	assert.Less(t, time.Since(healed), ttl+longest+patience, "a lock could not be had for so long after the faults")
	// The keys of a queue are kept for twice the place of a waiter.
	q.assertEmptyWithin(t, max(ttl, 2*reservationLife)+patience/4)
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// A history is what the locks' users do, and have met.
type history struct {
	registers [256]register

	grants, fenced, stale, lost, crashed, failed, violations atomic.Int64
}

func (h *history) lock(i int) (name string, kind lockKind) {
	kinds := []lockKind{fencedKind, fencedKind, writeKind, reentrantKind}
	kind = kinds[i%len(kinds)]
	return numbered(kind.name, i), kind
}

// step takes one lock, uses it for a while, and gives it up or not.
func (h *history) step(ctx context.Context, t *testing.T, r *rand.Rand, c *locker.Client) {
	i := r.IntN(len(h.registers))
	if r.IntN(32) == 0 {
		i %= 4 // which are wanted by many
	}
	reg := &h.registers[i]
	name, kind := h.lock(i)
	writes := kind.name != writeKind.name || r.IntN(3) == 0
	if !writes {
		kind = readKind
	}
	var opts []locker.Option
	crashes := r.IntN(500) == 0
	if crashes {
		opts = append(opts, locker.NoRenewal())
	}
	if kind.name == reentrantKind.name {
		ctx = locker.WithOwner(ctx, locker.NewOwner())
	}
	waiting, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	lease, err := kind.on(c, name, opts...).Lock(waiting)
	if err != nil {
		h.failed.Add(1)
		return
	}
	h.grants.Add(1)
	if writes {
		h.fenced.Add(1)
	}
	if !reg.enter(t, h, lease, writes) {
		h.stale.Add(1)
	}
	reg.write(t, h, lease, writes)
	if kind.name == reentrantKind.name && r.IntN(4) == 0 {
		if inner, err := kind.on(c, name).TryLock(ctx); err == nil {
			reg.write(t, h, inner, writes)
			// A re-entry that had to ask the nodes has a larger token, after which the
			// resource refuses the outer one.
			writes = inner.Token() == lease.Token()
			_ = inner.Unlock(context.WithoutCancel(ctx))
		}
	}
	if r.IntN(10) == 0 {
		select {
		case <-time.After(time.Duration(r.Int64N(int64(30 * time.Millisecond)))):
		case <-lease.Context().Done():
		}
	}
	if r.IntN(500) == 0 { // for longer than a lease that is not renewed
		select {
		case <-time.After(1500 * time.Millisecond):
		case <-lease.Context().Done():
		case <-ctx.Done():
		}
	}
	reg.write(t, h, lease, writes)
	if lease.Err() != nil {
		h.lost.Add(1)
		// It does not notice, and writes. The resource has seen a larger token, or
		// nobody has held the lock since.
		reg.write(t, h, lease, writes)
	}
	if crashes {
		h.crashed.Add(1)
		return // It believes in its lease until that ends.
	}
	reg.leave(lease)
	_ = lease.Unlock(context.WithoutCancel(ctx))
}

// A register is a resource that a lock guards. It refuses a token that is smaller than
// one it has seen.
type register struct {
	mu      sync.Mutex
	writer  *locker.Lease
	readers map[*locker.Lease]struct{}
	granted locker.Token // the last token of a grant
	seen    locker.Token // the largest token of a write
}

// enter checks a grant against the leases that are in use. It returns false if the
// lease is over already: then its Lock returned too late to be in any order.
func (g *register) enter(t *testing.T, h *history, lease *locker.Lease, writes bool) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Before the others: what is valid now has been when this was.
	if !lease.Valid() {
		return false
	}
	if g.writer != nil && g.writer.Valid() {
		h.violation(t, "I1: %s is held twice", lease.Name())
	}
	if !writes {
		if g.readers == nil {
			g.readers = map[*locker.Lease]struct{}{}
		}
		g.readers[lease] = struct{}{}
		return true
	}
	for reader := range g.readers {
		if reader.Valid() {
			h.violation(t, "I1: %s is written while it is read", lease.Name())
		}
		delete(g.readers, reader)
	}
	if lease.Token() <= g.granted {
		h.violation(t, "I3: %s was granted with %d after %d", lease.Name(), lease.Token(), g.granted)
	}
	g.writer, g.granted = lease, lease.Token()
	return true
}

// write uses the resource, which must not refuse a holder.
func (g *register) write(t *testing.T, h *history, lease *locker.Lease, writes bool) {
	if !writes {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case lease.Token() >= g.seen:
		g.seen = lease.Token()
	case lease.Valid():
		h.violation(t, "I3: the holder of %s is refused: it has %d, and %d was seen", lease.Name(), lease.Token(), g.seen)
	}
}

// leave comes before Unlock.
func (g *register) leave(lease *locker.Lease) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.readers, lease)
	if g.writer == lease {
		g.writer = nil
	}
}

func (h *history) violation(t *testing.T, format string, args ...any) {
	h.violations.Add(1)
	t.Errorf(format, args...)
}
