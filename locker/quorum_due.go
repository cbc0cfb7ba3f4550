package locker

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A due is what a node has to be told lest it keep a lock that nobody has: that a lease is over whose request it may
// still execute. A node that stands still hears nothing; when it goes on, it executes what it was
// sent before. So it is told again and again, until it has answered.
type due struct {
	call  call
	until time.Time // it is of no use any more
}

// dues are what a node has not answered, and is told again. One timer serves them all.
type dues struct {
	mu      sync.Mutex
	waiting []due
	timer   *time.Timer // nil if none waits
	closed  bool        // each is told for the last time
}

const (
	duePause = time.Second
	// maxDues bounds what is to be told to a node. It is as much as is asked of a node that does
	// not answer; what is beyond that lapses with its TTL.
	maxDues = maxLate
)

// owe has the node told c, until it has answered or life has passed. The caller must have entered
// the quorum.
func (n *node) owe(c call, life time.Duration) { n.say([]due{{c, time.Now().Add(life)}}) }

func (q *quorum) owe(c call, life time.Duration, nodes nodeSet) {
	for i, n := range q.nodes {
		if nodes.has(i) {
			n.owe(c, life)
		}
	}
}

// oweRest has c told to the nodes that have not done it; err tells that most have.
func (q *quorum) oweRest(c call, err error) {
	e, ok := errors.AsType[*QuorumError](err)
	if !ok || !q.enter() {
		return
	}
	defer q.wg.Done()
	var nodes nodeSet
	for _, v := range e.Votes {
		if v.Err != nil {
			nodes.add(v.Node)
		}
	}
	q.owe(c, voidLife(q.cfg.LongestTTL), nodes)
}

// say tells the node all of the batch in one request, and waits for nothing.
func (n *node) say(batch []due) {
	calls := make([]call, len(batch))
	for i, d := range batch {
		calls[i] = d.call
	}
	round := newRound(n.quorum, question{calls: calls}, func(_ int, answers []driver.Result) bool {
		n.told(batch, answers)
		return true
	})
	round.mu.Lock()
	defer round.mu.Unlock()
	round.order[0] = uint8(n.place)
	round.ask(1, round.in)
}

// told keeps those that have not been answered.
func (n *node) told(batch []due, answers []driver.Result) {
	left := batch[:0]
	for i, d := range batch {
		if undone(answers[i]) {
			left = append(left, d)
		}
	}
	d := &n.dues
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(left) == 0 || d.closed {
		return
	}
	d.waiting = append(d.waiting, left[:min(len(left), maxDues-len(d.waiting))]...)
	if d.timer == nil {
		d.timer = time.AfterFunc(duePause, n.remind)
	}
}

func (n *node) remind() {
	if n.quorum.enter() {
		defer n.quorum.wg.Done()
		n.sayAgain(false)
	}
}

// sayAgain tells the node all that waits; if last, for the last time, since the client
// closes.
func (n *node) sayAgain(last bool) {
	d, now := &n.dues, time.Now()
	d.mu.Lock()
	if d.timer != nil {
		d.timer.Stop()
	}
	waiting := slices.DeleteFunc(d.waiting, func(d due) bool { return !now.Before(d.until) })
	d.waiting, d.timer, d.closed = nil, nil, d.closed || last
	d.mu.Unlock()
	for batch := range slices.Chunk(waiting, batchSize) {
		n.say(batch)
	}
}
