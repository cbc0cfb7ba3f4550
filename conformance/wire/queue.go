package wire

import (
	"sync"
	"time"
)

// An item is a frame on its way to one side.
type item struct {
	data  []byte
	gate  <-chan struct{} // not nil: wait for this first
	delay time.Duration
	note  func() // called when the frame is about to be written
	last  bool   // close the connection after it
}

// A queue is an endless buffer for one direction of a connection.
type queue struct {
	mu     sync.Mutex
	items  []item
	closed bool
	ready  chan struct{} // capacity 1
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) push(it item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.items = append(q.items, it)
		q.wake()
	}
}

// close ends the queue: pop still returns what is in it.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.wake()
}

func (q *queue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop waits for the next item. It reports false at the end of the queue and when
// stop is closed.
func (q *queue) pop(stop <-chan struct{}) (item, bool) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			it := q.items[0]
			q.items = q.items[1:]
			q.mu.Unlock()
			return it, true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return item{}, false
		}
		select {
		case <-q.ready:
		case <-stop:
			return item{}, false
		}
	}
}
