package locker

import (
	"context"
	"sync"
	"time"
)

// A span is a context for all that is asked of the nodes in a short time. A context
// with a timer of its own for each request would cost more than the rest of asking.
type span struct {
	context.Context           // ends when a node has had its time to answer
	until           time.Time // what is asked later has another one

	mu      sync.Mutex
	over    bool
	watches *watch // the latest, which leads to the others
}

// span returns a context that ends when a node that is asked now has had its time,
// which is NodeTimeout or a little less.
func (q *quorum) span() *span {
	s, now := q.current.Load(), time.Now()
	if s != nil && now.Before(s.until) {
		return s
	}
	ctx, cancel := context.WithTimeout(q.ctx, q.cfg.NodeTimeout)
	s = &span{Context: ctx, until: now.Add(q.cfg.NodeTimeout / 16)}
	context.AfterFunc(ctx, func() {
		cancel()
		s.end()
	})
	q.current.Store(s)
	return s
}

// Aside is what package aside asks for: calls are made in goroutines of the quorum's own,
// which are left when the span ends.
func (*span) Aside() {}

// OnEnd is what package aside asks for, too. It costs a fraction of what the context's own
// way does, which has a map of all that watch it.
func (s *span) OnEnd(f func()) (stop func() bool) {
	w := &watch{f: f}
	s.add(w)
	return w.stop
}

// A watch has f called when its span ends.
type watch struct {
	f          func()
	span       *span
	next, prev *watch // in the span's list
	listed     bool
}

// add begins w.
func (s *span) add(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.span = s
	if s.over {
		go w.f()
		return
	}
	if w.next = s.watches; w.next != nil {
		w.next.prev = w
	}
	s.watches, w.listed = w, true
}

// stop takes w back. It returns false if f has been called, or is about to be.
func (w *watch) stop() bool {
	w.span.mu.Lock()
	defer w.span.mu.Unlock()
	if !w.listed {
		return false
	}
	w.listed = false
	if w.next != nil {
		w.next.prev = w.prev
	}
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		w.span.watches = w.next
	}
	return true
}

func (s *span) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for w := s.watches; w != nil; w = w.next {
		w.listed = false
		go w.f()
	}
	s.watches = nil
}
