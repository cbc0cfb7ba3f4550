package locker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// chaotic puts faults before every node, each by a seed of its own.
func (q fakeQuorum) chaotic(seed uint64, late time.Duration) []*chaos {
	var all []*chaos
	for i, f := range q {
		all = append(all, &chaos{fakeDeployment: f, late: late, r: rand.New(rand.NewPCG(seed, uint64(i)))})
	}
	return all
}

func chaosQuorum(t *testing.T, nodes []*chaos, opts ...ClientOption) *Client {
	t.Helper()
	var connectors []driver.Connector
	for _, x := range nodes {
		connectors = append(connectors, x)
	}
	c, err := NewQuorum(connectors, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// freeze stops a node. What it is sent meanwhile it executes when it goes on.
func (f *fakeDeployment) freeze() (thaw func()) {
	goesOn := make(chan struct{})
	f.set(func() {
		f.before = func(ctx context.Context, _ driver.Command) error {
			select {
			case <-goesOn:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return func() { f.heal(); close(goesOn) }
}

func quieten(nodes []*chaos) {
	for _, x := range nodes {
		x.mu.Lock()
		x.quiet = true
		x.mu.Unlock()
		x.heal()
	}
}

// A quorumHistory is the grants of one lock as its users saw them, and what was wrong.
type quorumHistory struct {
	mu        sync.Mutex
	believing map[*Lease]bool
	largest   Token // of those granted
	drawn     map[Token]bool
	grants    int
	wrong     []string
	overlaps  bool // leases may overlap: nodes forget some
}

func newQuorumHistory() *quorumHistory {
	return &quorumHistory{believing: map[*Lease]bool{}, drawn: map[Token]bool{}}
}

func (h *quorumHistory) fault(format string, args ...any) {
	h.wrong = append(h.wrong, fmt.Sprintf(format, args...))
}

// start tells which token one that is asked for from now on has to exceed.
func (h *quorumHistory) start() Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.largest
}

// granted notes a lease that was asked for at start.
func (h *quorumHistory) granted(l *Lease, start Token) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.Valid() {
		return
	}
	h.grants++
	for o := range h.believing {
		shared := l.Mode() == Reading && o.Mode() == Reading
		same := l.Owner().made && l.Owner() == o.Owner()
		if !h.overlaps && !shared && !same && o.Context().Err() == nil {
			h.fault("%v %d overlaps %v %d", l.Mode(), l.Token(), o.Mode(), o.Token())
		}
	}
	h.believing[l] = true
	token := l.Token()
	if token == 0 {
		return
	}
	if token <= start {
		h.fault("token %d after %d", token, start)
	}
	if h.drawn[token] {
		h.fault("token %d twice", token)
	}
	h.drawn[token] = true
	h.largest = max(h.largest, token)
}

func (h *quorumHistory) ended(l *Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.believing, l)
}

// Workers of several clients take locks of every kind on three nodes, whose requests
// and replies are late and lost, and of which one hangs or loses its data at a time.
// No two that exclude each other believe in a lock at once, tokens grow, and in
// the end nothing is left and all locks can be had. CHAOS sets the number of seeds.
func TestQuorumChaos(t *testing.T) {
	for seed := range chaosSeeds(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) { quorumChaosRun(t, nodes, uint64(seed)) })
		})
	}
}

const chaosTTL = 3 * time.Second // the longest

func quorumChaosRun(t *testing.T, nodes fakeQuorum, seed uint64) {
	nodes.established()
	faulty := nodes.chaotic(seed, 400*time.Millisecond)
	end := time.Now().Add(30 * time.Second)
	kinds := map[string][][]Option{
		"mutex":     {{Fenced()}},
		"reentrant": {{Fenced(), Reentrant()}},
		"rw":        {{Fenced(), ForWriting()}, {ForReading(), Fenced()}, {ForReading()}},
	}
	histories := map[string]*quorumHistory{}
	for name := range kinds {
		histories[name] = newQuorumHistory()
	}
	var clients []*Client
	var wg sync.WaitGroup
	for ci := range 3 {
		c := chaosQuorum(t, faulty, QuorumConfig{LongestTTL: chaosTTL}, TTL(time.Second+time.Duration(ci)*500*time.Millisecond))
		clients = append(clients, c)
		for name, modes := range kinds {
			w := chaosWorker{c, name, modes, histories[name], rand.New(rand.NewPCG(seed, uint64(100+ci*10+len(name)))), t}
			wg.Go(func() {
				for time.Now().Before(end) {
					w.work()
				}
			})
		}
	}
	r := rand.New(rand.NewPCG(seed, 99))
	for time.Now().Before(end.Add(-5 * time.Second)) {
		f := nodes[r.IntN(len(nodes))]
		switch r.IntN(3) {
		case 0:
			thaw := f.freeze()
			time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
			thaw()
		case 1:
			f.FlushAll()
		}
		time.Sleep(chaosTTL + 3*time.Second) // until it takes part again, whichever is next
	}
	wg.Wait()
	quieten(faulty)
	time.Sleep(15 * time.Second) // until all that was late has arrived
	for name, modes := range kinds {
		begun := time.Now()
		l, err := clients[0].Mutex(name, modes[0]...).Lock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), chaosTTL+2*time.Second, "liveness")
		require.NoError(t, l.Unlock(t.Context()))
		assert.Empty(t, histories[name].wrong, name)
		t.Log(name, histories[name].grants)
		assert.Greater(t, histories[name].grants, 4, "%s: the run says little", name)
	}
	time.Sleep(max(3*time.Minute, labelLife))
	for i, f := range nodes {
		for _, k := range f.Keys() {
			if f.TTL(k) == 0 || k != markerKey && !strings.HasPrefix(k, sidePrefix+"f:") {
				t.Errorf("left at node %d: %s %v", i, k, f.TTL(k))
			}
		}
	}
}

// A chaosWorker uses one lock.
type chaosWorker struct {
	client *Client
	name   string
	modes  [][]Option
	h      *quorumHistory
	r      *rand.Rand
	t      *testing.T
}

func (w chaosWorker) within(most int) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), time.Duration(1+w.r.IntN(most))*time.Millisecond)
}

func (w chaosWorker) work() {
	ctx, cancel := w.within(5000)
	defer cancel()
	opts := append([]Option{As(NewOwner())}, w.modes[w.r.IntN(len(w.modes))]...)
	start := w.h.start()
	l, err := w.client.Mutex(w.name, opts...).Lock(ctx)
	if err != nil {
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, ErrUnavailable) {
			w.t.Errorf("lock: %v", err)
		}
		return
	}
	w.h.granted(l, start)
	w.hold(l)
	switch w.r.IntN(4) {
	case 0:
		ctx, cancel := w.within(1000)
		defer cancel()
		_ = l.Extend(ctx, time.Duration(200+w.r.IntN(2500))*time.Millisecond)
	case 1:
		l = w.change(l)
		w.hold(l)
	}
	w.h.ended(l)
	ctx, cancel = w.within(3000)
	defer cancel()
	if err := l.Unlock(ctx); err != nil && !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrReleased) {
		w.t.Errorf("unlock: %v", err)
	}
}

// hold holds the lease for a while.
func (w chaosWorker) hold(l *Lease) {
	select {
	case <-time.After(time.Duration(1+w.r.IntN(1000)) * time.Millisecond): // never none, see soonest
	case <-l.Context().Done():
	}
}

// change hands the lease over, turns it into one of another mode, or re-enters it, and
// returns the one that is held then.
func (w chaosWorker) change(l *Lease) *Lease {
	ctx, cancel := w.within(3000)
	defer cancel()
	start := w.h.start()
	switch {
	case l.Mode() == Reading:
		if up, err := l.TryUpgrade(ctx); err == nil {
			w.h.granted(up, start)
			w.h.ended(l)
			_ = l.Unlock(ctx)
			return up
		}
	case w.name == "rw":
		if down, err := l.Downgrade(ctx); err == nil {
			w.h.ended(l)
			w.h.granted(down, start)
			return down
		}
	default:
		w.h.ended(l)
		id, err := l.Detach(ctx, 2*time.Second)
		if err != nil {
			return l
		}
		opts := w.modes[0]
		if taken, err := w.client.Mutex(w.name, opts...).Attach(ctx, id); err == nil {
			w.h.granted(taken, start)
			return taken
		}
	}
	return l
}
