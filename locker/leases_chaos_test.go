package locker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// Workers that re-enter, change, extend, hand over and give up their leases, also two of these at a
// time, and clients that are closed meanwhile or cut off, for each kind of lock. No two that
// exclude each other believe in a lock at once, tokens grow, and in the end nothing is left, on
// the server and in the clients, and all locks can be had. CHAOS sets the number of seeds.
func TestChaosOfLeases(t *testing.T) {
	for seed := range chaosSeeds(2) {
		for name, run := range map[string]struct{ quiet, hurried bool }{"faults": {}, "quiet": {quiet: true}, "hurried": {true, true}} {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) { leasesRun(t, f, uint64(seed), run.quiet, run.hurried) })
			})
		}
	}
}

const leasesTTL = 2 * time.Second // the longest

// A leaseHistory is what the users of one lock have seen.
type leaseHistory struct {
	t    *testing.T
	name string

	mu       sync.Mutex
	believed map[*Lease]time.Time     // until when at most
	detached map[string]detachedLease // by its id
	left     map[string]bool          // ids of all that ever were
	waiting  map[context.Context]time.Time
	given    time.Time // when the lock has become free, if it has
	largest  Token
	grants   int

	mixed   bool      // locks of several kinds share the name
	blurred time.Time // until then the leases that somebody has broken may not know of it
}

// A detachedLease keeps others out until somebody begins to take it up.
type detachedLease struct {
	mode  Mode
	owner Owner
	until time.Time
}

// lapse is how long the server may keep a lease that nobody renews any more.
const lapse = 2 * leasesTTL

func (h *leaseHistory) wrong(format string, args ...any) {
	h.t.Errorf("%s: "+format, append([]any{h.name}, args...)...)
}

// start tells which token one that is asked for from now on has to reach.
func (h *leaseHistory) start() Token {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.largest
}

func excludes(l *Lease, mode Mode, owner Owner) bool {
	same := owner.made && l.Owner() == owner
	return !same && (mode != Reading || l.Mode() != Reading)
}

// granted notes a lease that was asked for at start. first tells that its owner had none then.
func (h *leaseHistory) granted(l *Lease, start Token, first bool, limit time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !l.Valid() {
		return
	}
	h.grants++
	h.alone(l)
	h.believed[l] = limit
	token := l.Token()
	if !l.mutex.cfg.fenced || time.Now().Before(h.blurred) {
		return
	}
	if token < start || first && l.Mode() != Reading && token == start {
		h.wrong("%v with token %d after %d, first %v", l.Mode(), token, start, first)
	}
	if l.Mode() != Reading {
		h.largest = max(h.largest, token)
	}
}

// alone says who else believes in the lock, or may take it up. It needs h.mu.
func (h *leaseHistory) alone(l *Lease) {
	if time.Now().Before(h.blurred) {
		return
	}
	for o := range h.believed {
		if o != l && excludes(l, o.Mode(), o.Owner()) && o.Context().Err() == nil && l.Valid() {
			h.wrong("%v of %.4v overlaps %v of %.4v (%v %v)", l.Mode(), l.Owner(), o.Mode(), o.Owner(), l.route.public(), o.route.public())
		}
	}
	for id, d := range h.detached {
		if time.Now().Before(d.until) && excludes(l, d.mode, d.owner) {
			h.wrong("%v of %.4v while %.4s is detached, %v of %.4v, for %v more", l.Mode(), l.Owner(), id, d.mode, d.owner, time.Until(d.until))
		}
	}
}

// ended is called before a lease is given up, and tells until when it might have been held.
func (h *leaseHistory) ended(l *Lease) (limit time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	limit = h.believed[l]
	delete(h.believed, l)
	h.freed()
	if !limit.IsZero() && time.Now().After(limit) && l.Valid() {
		h.wrong("held beyond its end")
	}
	return limit
}

// freed needs h.mu.
func (h *leaseHistory) freed() {
	if now := time.Now(); h.given.Before(now) {
		h.given = now
	}
}

// goesOn notes that a lease which was to be given up is held still.
func (h *leaseHistory) goesOn(l *Lease, limit time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if l.Valid() {
		h.alone(l)
		h.believed[l] = limit
	}
}

func (h *leaseHistory) leave(l *Lease, id string, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.detached[id], h.left[id] = detachedLease{l.Mode(), l.Owner(), until}, true
	h.given = time.Now().Add(lapse)
}

func (h *leaseHistory) takenUp(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.detached, id)
}

// waits notes a call that waits until over is called.
func (h *leaseHistory) waits(ctx context.Context) (over func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[ctx] = time.Now()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, ctx)
	}
}

// A leaseClient has a line of its own to the server. It counts the leases whose beginning and end its
// observer was told of.
type leaseClient struct {
	*Client
	x          *chaos
	mu         sync.Mutex
	had, ended int
}

// newClient adds the i-th client.
func (run *leaseRun) newClient(i int) *leaseClient {
	run.t.Helper()
	n := len(run.all)
	c := &leaseClient{x: &chaos{
		fakeDeployment: run.f, r: rand.New(rand.NewPCG(run.seed, uint64(1000+n))), together: (run.seed+uint64(n))%2 == 1,
		quiet: run.quiet, late: 200 * time.Millisecond,
	}}
	run.all = append(run.all, c)
	opts := []ClientOption{TTL(time.Second + time.Duration(i)*500*time.Millisecond), Label(fmt.Sprint("client", n))}
	if n%3 > 0 {
		opts = append(opts, Observe(Observer{
			LockEnd: func(_ context.Context, e LockEnd) {
				if e.Err == nil {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.had++
				}
			},
			HoldEnd: func(context.Context, HoldEnd) {
				c.mu.Lock()
				defer c.mu.Unlock()
				c.ended++
			},
			Renewal: func(Renewal) {},
		}))
	}
	var err error
	c.Client, err = New(c.x, opts...)
	require.NoError(run.t, err)
	return c
}

// A leaseRun is one history, of several locks.
type leaseRun struct {
	t         *testing.T
	f         *fakeDeployment
	seed      uint64
	quiet     bool
	unit      time.Duration // of the pauses: a millisecond, or less, so that locks are passed on
	histories map[string]*leaseHistory

	mu      sync.Mutex
	clients []*leaseClient
	all     []*leaseClient
}

func (run *leaseRun) client(i int) *leaseClient {
	run.mu.Lock()
	defer run.mu.Unlock()
	return run.clients[i%len(run.clients)]
}

var leaseKinds = map[string][][]Option{
	"mutex":     {nil},
	"fenced":    {{Fenced()}},
	"reentrant": {{Reentrant(), Fenced()}},
	"unfenced":  {{Reentrant()}},
	"rw":        {{ForReading(), Fenced()}, {ForWriting(), Fenced()}},
}

func leasesRun(t *testing.T, f *fakeDeployment, seed uint64, quiet, hurried bool) {
	polls := seed%4 == 3
	if polls {
		f.subscribeErr = driver.ErrUnsupported
	}
	run := &leaseRun{t: t, f: f, seed: seed, quiet: quiet, unit: time.Millisecond, histories: map[string]*leaseHistory{}}
	if hurried {
		run.unit /= 50
	}
	for i := range 3 {
		run.clients = append(run.clients, run.newClient(i))
	}
	begun := time.Now()
	end := begun.Add(20_000 * run.unit)
	if quiet {
		end = begun.Add(6000 * run.unit)
	}
	var workers, others sync.WaitGroup
	for _, name := range slices.Sorted(maps.Keys(leaseKinds)) {
		h := &leaseHistory{t: t, name: name, believed: map[*Lease]time.Time{}, detached: map[string]detachedLease{}, left: map[string]bool{}, waiting: map[context.Context]time.Time{}, given: begun}
		run.histories[name] = h
		for i := range 6 {
			w := &leaseWorker{run: run, h: h, modes: leaseKinds[name], i: i, r: rand.New(rand.NewPCG(seed, uint64(100*len(run.histories)+i)))}
			workers.Go(func() {
				for time.Now().Before(end) {
					w.work()
				}
				w.giveAllUp()
			})
		}
		if quiet {
			soon := 50 * run.unit
			if polls {
				soon += pollInterval
			}
			others.Go(func() { h.nobodyIsForgotten(end, soon) })
		}
	}
	others.Go(func() {
		r := rand.New(rand.NewPCG(seed, 2))
		for time.Now().Before(end.Add(-2000 * run.unit)) {
			time.Sleep(time.Duration(r.IntN(4000)) * run.unit)
			run.replace(r.IntN(3))
		}
	})
	if !quiet {
		others.Go(func() {
			r := rand.New(rand.NewPCG(seed, 3))
			for time.Now().Before(end.Add(-2000 * run.unit)) {
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
				x := run.client(r.IntN(3)).x
				x.turn(func() { x.cut = true })
				time.Sleep(time.Duration(r.IntN(4000)) * time.Millisecond)
				x.turn(func() { x.cut = false })
			}
		})
	}
	workers.Wait()
	others.Wait()
	for _, c := range run.all {
		c.x.turn(func() { c.x.quiet = true })
	}
	time.Sleep(15 * time.Second) // until all that was late has arrived
	grants := 0
	for name, h := range run.histories {
		begun := time.Now()
		l, err := run.client(0).Mutex(name, h.modes()...).Lock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), leasesTTL+2*time.Second, "liveness")
		require.NoError(t, l.Unlock(t.Context()))
		grants += h.grants
	}
	assert.Greater(t, grants, 50, "the run says little")
	time.Sleep(3 * time.Minute)
	for _, k := range f.Keys() {
		if f.TTL(k) == 0 || !strings.HasPrefix(k, sidePrefix+"f:") {
			t.Errorf("left: %s %v", k, f.TTL(k))
		}
	}
	synctest.Wait()
	for _, c := range run.clients {
		nothingIsLeft(t, c.Client)
		assert.NoError(t, c.Close())
	}
	for _, c := range run.all {
		assert.Equal(t, c.had, c.ended, "each end is told of once")
	}
}

func (h *leaseHistory) modes() []Option { return leaseKinds[h.name][len(leaseKinds[h.name])-1] }

// nobodyIsForgotten looks whether somebody waits while nobody has the lock, where no request is lost.
func (h *leaseHistory) nobodyIsForgotten(end time.Time, soon time.Duration) {
	for time.Now().Before(end) {
		time.Sleep(soon / 7)
		h.mu.Lock()
		free := len(h.believed) == 0 && time.Since(h.given) > soon
		for _, since := range h.waiting {
			if free && time.Since(since) > soon {
				h.wrong("somebody has waited for %v, though the lock is free since %v", time.Since(since), time.Since(h.given))
				h.given = time.Now().Add(time.Hour)
			}
		}
		h.mu.Unlock()
	}
}

// nothingIsLeft looks at a client that has nothing to do.
func nothingIsLeft(t *testing.T, c *Client) {
	t.Helper()
	assert.Zero(t, c.jobs())
	assert.Zero(t, c.watchdog.cleanups)
	assert.Zero(t, c.calls)
	assert.Zero(t, c.waiterLimit.waiting.Load()+c.waiterLimit.asking.Load())
	assert.Empty(t, c.lines.byRecord)
	assert.Empty(t, c.hub.slots)
	assert.Empty(t, c.hub.wanted)
	assert.Empty(t, c.hub.sleepers)
	assert.Empty(t, c.holdings.tenures)
	assert.Empty(t, c.holdings.tokens)
	assert.Empty(t, c.attaching.ids)
	assert.Empty(t, c.acquireContexts.held)
	assert.Empty(t, c.otherContexts.held)
}

// replace closes a client, and puts another one in its place.
func (run *leaseRun) replace(i int) {
	run.mu.Lock()
	old := run.clients[i]
	run.clients[i] = run.newClient(i)
	run.mu.Unlock()
	begun := time.Now()
	err := old.Close()
	if err != nil && (run.quiet || !errors.Is(err, ErrUnknown)) {
		run.t.Errorf("close: %v", err)
	}
	if took := time.Since(begun); took > 2*closeTime+3*time.Second || run.quiet && took > 100*time.Millisecond {
		run.t.Errorf("close took %v", took)
	}
	time.Sleep(time.Millisecond)
	for _, h := range run.histories {
		h.mu.Lock()
		for l := range h.believed {
			if l.tenure.client == old.Client && l.Valid() {
				h.wrong("held on a closed client")
			}
		}
		h.mu.Unlock()
		if run.quiet && err == nil {
			run.releasedBy(old, h)
		}
	}
	assert.Empty(run.t, old.Snapshot().Leases)
}

// releasedBy looks whether the record of a lock names a client that is closed.
func (run *leaseRun) releasedBy(c *leaseClient, h *leaseHistory) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := run.f
	look := func(id, text string) {
		if !h.left[id] && strings.Contains(text, "|"+c.cfg.label+"|") {
			h.wrong("left by %s: %s %s", c.cfg.label, id, text)
		}
	}
	if text, err := f.Get(h.name); err == nil {
		look(strings.Split(text, "|")[2], text)
		return
	}
	fields, _ := f.HKeys(h.name)
	for _, id := range fields {
		look(id, f.HGet(h.name, id))
	}
}

// A leaseWorker uses one lock, for an owner of its own.
type leaseWorker struct {
	run   *leaseRun
	h     *leaseHistory
	modes [][]Option
	i     int
	r     *rand.Rand

	client *leaseClient
	owner  Owner
	mixed  bool // it has taken up a lease on another client
	held   []*Lease
}

func (w *leaseWorker) some(most int) time.Duration {
	return time.Duration(1+w.r.IntN(most)) * w.run.unit
}

// lasting is a TTL, which is never that short.
func (w *leaseWorker) lasting() time.Duration {
	return 200*time.Millisecond + time.Duration(w.r.IntN(1500))*time.Millisecond
}

func (w *leaseWorker) within(most int) (context.Context, context.CancelFunc) {
	if w.r.IntN(3) == 0 {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(w.some(most), cancel)
		return ctx, cancel
	}
	return context.WithTimeout(context.Background(), w.some(most))
}

func (w *leaseWorker) work() {
	w.held = slices.DeleteFunc(w.held, func(l *Lease) bool {
		if l.Valid() {
			return false
		}
		w.unlock(l)
		return true
	})
	if len(w.held) == 0 {
		w.client, w.mixed = w.run.client(w.i+w.r.IntN(2)), false
		if w.owner = NewOwner(); w.r.IntN(2) == 0 {
			w.owner = NamedOwner(newID()[:8])
		}
		w.take()
		return
	}
	i := w.r.IntN(len(w.held))
	l := w.held[i]
	drop := func() { w.held = slices.Delete(w.held, i, i+1) }
	switch n := w.r.IntN(12); {
	case n < 2:
		hold := 100
		if n == 0 && !w.run.quiet {
			hold = 4000 // maybe longer than its client can renew it
		}
		select {
		case <-time.After(w.some(hold)):
		case <-l.Context().Done():
		}
	case n < 4 && l.Owner().made && !w.mixed:
		w.take()
	case n == 4:
		ctx, cancel := w.within(1000)
		defer cancel()
		_ = l.Extend(ctx, w.lasting())
	case n == 5:
		drop()
		w.detach(l)
	case n < 8 && l.Mode() != Exclusive && !w.mixed:
		w.change(l, drop)
	case n == 8:
		drop()
		w.twice(l)
	default:
		drop()
		w.unlock(l)
	}
}

// take locks for the owner.
func (w *leaseWorker) take() {
	opts := append([]Option{As(w.owner)}, w.modes[w.r.IntN(len(w.modes))]...)
	var hold time.Duration
	switch w.r.IntN(6) {
	case 0:
		opts = append(opts, NoRenewal())
	case 1:
		hold = w.some(1500)
		opts = append(opts, MaxHold(hold))
	case 2:
		opts = append(opts, TTL(100*time.Millisecond+w.lasting()))
	case 3:
		opts = append(opts, WaitTimeout(w.some(1000)))
	}
	m := w.client.Mutex(w.h.name, opts...)
	ctx, cancel := w.within(3000)
	defer cancel()
	start, first := w.h.start(), len(w.held) == 0
	if !first && w.r.IntN(2) == 0 {
		ctx = WithOwner(ctx, w.owner)
	}
	var l *Lease
	var err error
	if w.r.IntN(4) == 0 {
		l, err = m.TryLock(ctx)
	} else {
		over := w.h.waits(ctx)
		l, err = m.Lock(ctx)
		over()
	}
	w.noteWhether(l, err, start, first, hold)
}

func (w *leaseWorker) noteWhether(l *Lease, err error, start Token, first bool, hold time.Duration) {
	if err == nil {
		var limit time.Time
		if hold > 0 {
			limit = time.Now().Add(hold)
		}
		w.held = append(w.held, l)
		w.h.granted(l, start, first, limit)
		return
	}
	if w.h.mixed && errors.Is(err, ErrForeign) {
		time.Sleep(w.some(20))
		return
	}
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, ErrWaitTimeout, ErrUnavailable, ErrClosed, ErrLocked, ErrLost, ErrReleased, ErrDeadlock, ErrNotHeld} {
		if errors.Is(err, known) {
			return
		}
	}
	w.h.wrong("%v", err)
}

func (w *leaseWorker) unlock(l *Lease) {
	w.h.ended(l)
	ctx, cancel := w.within(2000)
	defer cancel()
	err := l.Unlock(ctx)
	if l.Valid() {
		w.h.wrong("valid after Unlock")
	}
	if err == nil {
		w.h.mu.Lock()
		w.h.freed()
		w.h.mu.Unlock()
		return
	}
	refused := w.h.mixed && errors.Is(err, ErrUnavailable)
	if !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrNotHeld) && !errors.Is(err, ErrReleased) && !refused {
		w.h.wrong("unlock: %v", err)
	}
}

func (w *leaseWorker) giveAllUp() {
	for _, l := range w.held {
		w.unlock(l)
	}
}

// detach leaves the lease to another client, or to nobody.
func (w *leaseWorker) detach(l *Lease) {
	limit := w.h.ended(l)
	ctx, cancel := w.within(2000)
	defer cancel()
	ttl := w.lasting()
	begun := time.Now()
	id, err := l.Detach(ctx, ttl)
	if err != nil {
		if w.h.goesOn(l, limit); l.Valid() {
			w.held = append(w.held, l)
		} else {
			w.unlock(l)
		}
		return
	}
	if l.Valid() {
		w.h.wrong("valid after Detach")
	}
	w.h.leave(l, id, begun.Add(ttl))
	w.takeUp(l, id)
}

// takeUp is what some client does with a lease that l has left behind.
func (w *leaseWorker) takeUp(l *Lease, id string) {
	time.Sleep(w.some(100))
	if w.r.IntN(20) == 0 {
		return
	}
	c := w.run.client(w.r.IntN(3))
	ctx, cancel := w.within(2000)
	defer cancel()
	like := lockOption(func(c *lockConfig) { c.mode, c.fenced = l.mutex.mode, l.mutex.cfg.fenced })
	start := w.h.start()
	w.h.takenUp(id)
	taken, err := c.Mutex(w.h.name, like).Attach(ctx, id)
	w.noteWhether(taken, err, start, l.Mode() != Reading, 0)
	w.mixed = w.mixed || err == nil && c != w.client
}

// change turns a reader into a writer, beside it, or a writer into a reader.
func (w *leaseWorker) change(l *Lease, drop func()) {
	ctx, cancel := w.within(2000)
	defer cancel()
	start := w.h.start()
	var other *Lease
	var err error
	switch {
	case l.Mode() == Writing:
		other, err = l.Downgrade(ctx)
		if err == nil {
			if l.Valid() {
				w.h.wrong("valid after Downgrade")
			}
			w.h.ended(l)
			drop()
		}
	case w.r.IntN(2) == 0:
		other, err = l.TryUpgrade(ctx)
	default:
		other, err = l.Upgrade(ctx)
	}
	w.noteWhether(other, err, start, false, 0)
}

// twice gives a lease up, and does something else to it at the same time.
func (w *leaseWorker) twice(l *Lease) {
	w.h.ended(l)
	ctx, cancel := w.within(2000)
	defer cancel()
	ttl := w.lasting()
	var mu sync.Mutex
	var ids []string
	var wg sync.WaitGroup
	detach := func() {
		begun := time.Now()
		if id, err := l.Detach(ctx, ttl); err == nil {
			w.h.leave(l, id, begun.Add(ttl))
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, id)
		}
	}
	for range 2 {
		pause := w.some(50)
		do := []func(){
			func() { _ = l.Unlock(ctx) }, func() { _ = l.Extend(ctx, ttl) }, detach, detach,
			func() {
				if l.Mode() == Writing {
					if other, err := l.Downgrade(ctx); err == nil {
						_ = other.Unlock(context.Background())
					}
				}
			},
		}[w.r.IntN(5)]
		wg.Go(func() { time.Sleep(pause); do() })
	}
	wg.Wait()
	if len(ids) > 1 {
		w.h.wrong("detached %d times", len(ids))
	}
	w.unlock(l)
	for _, id := range ids {
		w.takeUp(l, id)
	}
}
