package aside

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/golocker/golocker/locker/driver"
)

// A Crew makes calls aside on goroutines that it keeps for the next call. A goroutine that is
// started for one call costs more than the rest of that call's way, since its stack has to grow
// each time. The zero Crew is ready for use.
type Crew struct {
	mu     sync.Mutex
	idle   []*hand
	closed bool
}

// A Task is what a Crew does.
type Task interface {
	// Run makes the call, and keeps its result in the Task.
	Run()
}

// maxIdle is how many goroutines a Crew keeps.
const maxIdle = 8

// A hand is one goroutine.
type hand struct {
	tasks chan Task     // has room for one
	done  chan struct{} // has room for one
	state atomic.Int32  // of the task
}

const (
	running  int32 = iota
	finished       // the caller takes note of it
	left           // nobody waits for it
)

// Call has t run aside and returns when it has. It returns earlier when ctx ends, with
// ctx's error, or when done is closed, with [driver.ErrClosed]; done may be nil. Then t
// goes on alone, and must not be touched any more.
//
// An error says only that nobody waited for t: the outcome is unknown, unless the
// caller knows better.
//
// A ctx may say, by a method Aside, that its call is made aside already, in a goroutine that
// nobody waits for after ctx has ended. Package locker does so where it asks a quorum. Then t
// is run there, without a detour, and Call returns when it has run.
func (c *Crew) Call(ctx context.Context, done <-chan struct{}, t Task) error {
	if isAside(ctx) {
		t.Run()
		return nil
	}
	h := c.take()
	h.tasks <- t
	select {
	case <-h.done:
		c.keep(h)
		return nil
	case <-ctx.Done():
	case <-done:
	}
	if !h.state.CompareAndSwap(running, left) {
		<-h.done // at the same moment: a known outcome is worth more
		c.keep(h)
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return driver.ErrClosed
}

func isAside(ctx context.Context) bool {
	_, is := ctx.(interface{ Aside() })
	return is
}

// Go has t run aside, and does not wait for it.
func (c *Crew) Go(t Task) {
	h := c.take()
	h.state.Store(left)
	h.tasks <- t
}

// take returns a hand that has nothing to do.
func (c *Crew) take() *hand {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.idle); n > 0 {
		h := c.idle[n-1]
		c.idle = c.idle[:n-1]
		h.state.Store(running)
		return h
	}
	h := &hand{tasks: make(chan Task, 1), done: make(chan struct{}, 1)}
	go h.work(c)
	return h
}

// keep takes a hand back, or ends it if there are enough.
func (c *Crew) keep(h *hand) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == maxIdle {
		close(h.tasks)
		return
	}
	c.idle = append(c.idle, h)
}

func (h *hand) work(c *Crew) {
	for t := range h.tasks {
		t.Run()
		if h.state.CompareAndSwap(running, finished) {
			h.done <- struct{}{}
		} else {
			c.keep(h)
		}
	}
}

// Close ends the goroutines that have nothing to do, and each of the others when it has done
// its task. Calls may still be made, on goroutines of their own.
func (c *Crew) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, h := range c.idle {
		close(h.tasks)
	}
	c.idle = nil
}
