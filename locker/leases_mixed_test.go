package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// As TestChaosOfLeases, where all share one name: locks of every kind, fair and unfair, and a SET NX that
// somebody has written by hand. The server refuses some requests and forgets its scripts, its clock steps
// back, and somebody breaks the lock now and then. CHAOS sets the number of seeds.
func TestChaosOfAllKindsOnOneName(t *testing.T) {
	for seed := range chaosSeeds(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) { mixedRun(t, f, uint64(seed)) })
		})
	}
}

var mixedKinds = [][]Option{
	{Fenced()}, nil, {Unfair(), Fenced()}, {Fenced(), Retry(Constant(37 * time.Millisecond))},
	{Reentrant(), Fenced()}, {ForReading(), Fenced()}, {ForWriting(), Fenced()},
}

func mixedRun(t *testing.T, f *fakeDeployment, seed uint64) {
	server := &shakyServer{f: f, r: rand.New(rand.NewPCG(seed, 4))}
	f.set(func() { f.before = server.before })
	run := &leaseRun{t: t, f: f, seed: seed, unit: time.Millisecond, histories: map[string]*leaseHistory{}}
	for i := range 3 {
		run.clients = append(run.clients, run.newClient(i))
	}
	h := &leaseHistory{
		t: t, name: "k", mixed: true, believed: map[*Lease]time.Time{}, detached: map[string]detachedLease{}, left: map[string]bool{},
		waiting: map[context.Context]time.Time{}, given: time.Now(),
	}
	run.histories["k"] = h
	end := time.Now().Add(20 * time.Second)
	var all sync.WaitGroup
	for i := range 7 {
		w := &leaseWorker{run: run, h: h, modes: mixedKinds, i: i, r: rand.New(rand.NewPCG(seed, uint64(100+i)))}
		all.Go(func() {
			for time.Now().Before(end) {
				w.work()
			}
			w.giveAllUp()
		})
	}
	plain, err := f.Connect(t.Context())
	require.NoError(t, err)
	defer plain.Close()
	often := func(n uint64, most int, do func(r *rand.Rand)) {
		all.Go(func() {
			for r := rand.New(rand.NewPCG(seed, n)); time.Now().Before(end.Add(-2 * time.Second)); do(r) {
				time.Sleep(time.Duration(r.IntN(most)) * time.Millisecond)
			}
		})
	}
	breaker := f.client(t)
	often(5, 300, func(r *rand.Rand) { h.byHand(plain, time.Duration(50+r.IntN(500))*time.Millisecond) })
	often(6, 4000, func(r *rand.Rand) { run.replace(r.IntN(3)) })
	often(7, 3000, func(r *rand.Rand) { server.stepBack(time.Duration(r.IntN(2000)) * time.Millisecond) })
	often(8, 12000, func(*rand.Rand) { h.broken(breaker) })
	all.Wait()
	f.heal()
	for _, c := range run.all {
		c.x.turn(func() { c.x.quiet = true })
	}
	f.set(func() { f.before = server.onTime })
	time.Sleep(15 * time.Second) // until all that was late has arrived
	for _, opts := range mixedKinds {
		begun := time.Now()
		l, err := run.client(0).Mutex("k", opts...).Lock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), leasesTTL+2*time.Second, "liveness")
		require.NoError(t, l.Unlock(t.Context()))
	}
	assert.Greater(t, h.grants, 10, "the run says little")
	synctest.Wait()
	for _, c := range run.clients {
		nothingIsLeft(t, c.Client)
		assert.NoError(t, c.Close())
	}
	for _, c := range run.all {
		assert.Equal(t, c.had, c.ended, "each end is told of once")
	}
}

// A shakyServer has a clock that steps back, and refuses requests.
type shakyServer struct {
	f   *fakeDeployment
	mu  sync.Mutex
	r   *rand.Rand
	off time.Duration
}

func (s *shakyServer) stepBack(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.off += d
}

// onTime sets the clock, which stands still between requests.
func (s *shakyServer) onTime(context.Context, driver.Command) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.f.SetTime(time.Now().Add(-s.off))
	return nil
}

func (s *shakyServer) before(ctx context.Context, cmd driver.Command) error {
	_ = s.onTime(ctx, cmd)
	s.mu.Lock()
	defer s.mu.Unlock()
	codes := []string{"LOADING", "READONLY", "BUSY", "NOREPLICAS", "CLUSTERDOWN", "MISCONF", "TRYAGAIN", "MASTERDOWN"}
	switch name := cmd.Name(); {
	case name != "EVALSHA" && name != "EVAL" && name != "SET":
	case name == "EVALSHA" && s.r.IntN(50) == 0:
		return driver.NewServerError("NOSCRIPT No matching script.")
	case s.r.IntN(25) == 0:
		return driver.NewServerError(codes[s.r.IntN(len(codes))] + " for a moment")
	}
	return nil
}

// byHand takes the lock as those do who do not use this package, and deletes it if it is theirs still.
func (h *leaseHistory) byHand(conn driver.Conn, ttl time.Duration) {
	do := func(args ...string) driver.Value {
		v, _ := conn.Do(context.Background(), driver.Command{Args: args, FirstKey: 1, NumKeys: 1})
		return v
	}
	id := newID()
	if do("SET", h.name, id, "NX", "PX", millis(ttl)) != "OK" {
		return
	}
	h.mu.Lock()
	for l := range h.believed {
		if l.Valid() && time.Now().After(h.blurred) {
			h.wrong("taken by hand while %v of %.4v is held", l.Mode(), l.Owner())
		}
	}
	h.detached[id] = detachedLease{mode: Exclusive, until: time.Now().Add(ttl)}
	h.mu.Unlock()
	time.Sleep(ttl / 2)
	h.takenUp(id)
	if do("GET", h.name) == id {
		do("DEL", h.name)
	}
}

// broken ends all leases. Those who hold one do not know until they would have renewed it.
func (h *leaseHistory) broken(c *Client) {
	blur := func(d time.Duration) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.blurred = time.Now().Add(d)
		clear(h.detached)
	}
	blur(time.Hour)
	_, err := c.ForceRelease(context.Background(), h.name)
	blur(leasesTTL + time.Second)
	for _, known := range []error{nil, ErrNotHeld, ErrForeign, ErrUnavailable, ErrUnknown} {
		if errors.Is(err, known) {
			return
		}
	}
	h.wrong("force release: %v", err)
}
