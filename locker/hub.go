package locker

import (
	"container/heap"
	"context"
	"strings"
	"sync"
	"time"
)

// A hub hears for all waiters of a client that a lock was granted or is free. It has
// one subscription with one channel, opened when the first waiter comes, and wakes
// the waiter whose reservation a message names. On a quorum it has one for each node,
// and any of them may tell.
type hub struct {
	links     []*link
	channel   string
	observers *observers // may be nil

	mu       sync.Mutex
	slots    map[string]*slot
	wanted   map[string]int // how many of them are for a lock, by its record
	sleepers sleepers       // those whose waiter sleeps
	timer    sharedTimer    // for them, and for what is due about silent subscriptions
	running  bool
	settled  chan struct{} // closed once it is known whether messages arrive
	untried  int           // links of which that is not known
	up       int           // links on which they do
	waitTime stopwatch     // goes while there are slots
	monitors []*monitor    // of the links, nil where messages are not known to arrive
	isClosed bool

	ctx  context.Context
	stop context.CancelFunc
	wg   sync.WaitGroup
}

// A slot is where one waiter is woken.
type slot struct {
	reservation string
	woken       chan wakeUp // holds one: all that came since it was taken

	// The hub's mu guards what follows: who waits, for a Snapshot, and until when it sleeps.
	mutex *Mutex
	since time.Time
	until time.Time
	place int // among the sleepers, from 1; 0 if it is none of them
}

// A wakeUp is why a waiter is to look at the lock. It may be for several reasons.
type wakeUp struct {
	// seq and token are those of a grant: the server has given the lock to the
	// place in the queue that has this seq.
	seq   string
	token Token
	// look tells that a message asks for it.
	look bool
	// hint tells that there was no message: one may have been missed, or from now
	// on there are some.
	hint bool
	// slept tells that nothing came, and the time for which the waiter sleeps is over.
	slept bool
}

// parseMessage reads "gl1|w|<reservation>", by which the waiter is asked to look,
// or "gl1|g|<reservation>|<seq>|<token>", a grant.
func parseMessage(payload string) (reservation string, w wakeUp, ok bool) {
	if reservation, ok = strings.CutPrefix(payload, "gl1|w|"); ok {
		return reservation, wakeUp{look: true}, true
	}
	rest, ok := strings.CutPrefix(payload, "gl1|g|")
	fields := strings.Split(rest, "|")
	if !ok || len(fields) != 3 {
		return "", w, false
	}
	token, err := readToken(fields[2])
	return fields[0], wakeUp{seq: fields[1], token: token, look: fields[1] == ""}, err == nil
}

const (
	// settleTime is how long a waiter holds back its next attempt for the
	// subscription to be there. After it the waiter polls until it is.
	settleTime = 50 * time.Millisecond
	// subscribeTime bounds one attempt to subscribe.
	subscribeTime = 5 * time.Second
	// resubscribePause lies between attempts that fail, or hear nothing, growing to
	// resubscribeLimit. An ACL that forbids it may be mended some day.
	resubscribePause = 250 * time.Millisecond
	resubscribeLimit = time.Minute
)

func newHub(links []*link) *hub {
	ctx, stop := context.WithCancel(context.Background())
	h := &hub{
		links: links, untried: len(links), channel: sidePrefix + "c:" + newID(),
		slots: map[string]*slot{}, wanted: map[string]int{}, settled: make(chan struct{}), monitors: make([]*monitor, len(links)),
		ctx: ctx, stop: stop,
	}
	h.timer.fire = h.rouse
	return h
}

func (h *hub) join(m *Mutex, since time.Time) *slot {
	s := &slot{reservation: newID(), woken: make(chan wakeUp, 1), mutex: m, since: since}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.slots[s.reservation] = s
	h.wanted[m.keys.record]++
	if len(h.slots) == 1 {
		h.waitTime.start(time.Now())
		h.probe()
	}
	if !h.running && !h.isClosed {
		h.running = true
		for node, l := range h.links {
			h.wg.Go(func() { h.run(node, l) })
		}
	}
	return s
}

// transfer notes that another call waits in the slot, for the same lock.
func (h *hub) transfer(s *slot, m *Mutex, since time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.mutex, s.since = m, since
}

func (h *hub) leave(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.slots, s.reservation)
	if record := s.mutex.keys.record; h.wanted[record] > 1 {
		h.wanted[record]--
	} else {
		delete(h.wanted, record)
	}
	if len(h.slots) == 0 {
		h.waitTime.stop(time.Now())
	}
}

// waiterCounts are of those who wait.
type waiterCounts struct {
	all      int
	sameLock int // for the same lock
	locks    int // that all of them wait for
}

// countWaiters counts those who wait, s included.
func (h *hub) countWaiters(s *slot) waiterCounts {
	h.mu.Lock()
	defer h.mu.Unlock()
	return waiterCounts{all: len(h.slots), sameLock: h.wanted[s.mutex.keys.record], locks: len(h.wanted)}
}

// sleep has s woken at the given time, unless it gets up before.
func (h *hub) sleep(s *slot, until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.until = until
	heap.Push(&h.sleepers, s)
	h.timer.fireBy(until)
}

// getUp must be called when s has been woken, by whatever.
func (h *hub) getUp(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.place > 0 {
		heap.Remove(&h.sleepers, s.place-1)
	}
}

// rouse wakes those who have slept for as long as they wanted to, and looks after silent
// subscriptions.
func (h *hub) rouse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timer.fired()
	h.probe()
	now := time.Now()
	for len(h.sleepers) > 0 {
		first := h.sleepers[0]
		if first.until.After(now) {
			h.timer.fireBy(first.until)
			return
		}
		heap.Pop(&h.sleepers)
		first.wake(wakeUp{slept: true})
	}
}

// refresh drops a wake-up of s that came before a request: it says what the request
// will find out. A grant is kept, for the request may fail.
func (h *hub) refresh(s *slot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case w := <-s.woken:
		if w.seq != "" {
			s.wake(wakeUp{seq: w.seq, token: w.token})
		}
	default:
	}
}

// released wakes those who lead a line for a lock that this client has released, if no message
// will. There are few of them; others, who may be thousands, look again soon by themselves.
func (h *hub) released(m *Mutex) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.up > 0 {
		return
	}
	for _, s := range h.slots {
		if s.mutex.linesUp && s.mutex.keys.record == m.keys.record {
			s.wake(wakeUp{hint: true})
		}
	}
}

func (h *hub) close() {
	h.mu.Lock()
	h.isClosed = true
	h.timer.stop()
	h.mu.Unlock()
	h.stop()
	h.wg.Wait()
}

func (h *hub) wake(reservation string, w wakeUp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.slots[reservation]; s != nil {
		s.wake(w)
	}
}

func (h *hub) wakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.slots {
		s.wake(wakeUp{hint: true})
	}
}

// wake puts w into the slot, together with what has not been taken yet. It needs the
// hub's mu.
func (s *slot) wake(w wakeUp) {
	select {
	case earlier := <-s.woken:
		w = earlier.and(w)
	default:
	}
	select {
	case s.woken <- w:
	default:
	}
}

// and returns both w and what came later. Nothing is hidden by a grant, which may be for a
// place that the waiter has lost: the waiter would wait for something that has happened
// already. Of two messages, the later one says what became of the lock.
func (w wakeUp) and(later wakeUp) wakeUp {
	if later.look || later.seq != "" {
		w.seq, w.token = later.seq, later.token
	}
	w.look = w.look || later.look
	w.hint = w.hint || later.hint
	w.slept = w.slept || later.slept
	return w
}
