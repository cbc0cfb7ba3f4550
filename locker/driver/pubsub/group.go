package pubsub

import (
	"context"
	"fmt"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

// A Group is the open Subscriptions of a [driver.Conn], which closes them when it is
// closed. The zero Group is ready for use.
type Group struct {
	mu     sync.Mutex
	open   map[*Subscription]struct{}
	closed bool
}

// Subscribe is the method of [driver.Subscriber] for a Conn with this Group.
func (g *Group) Subscribe(ctx context.Context, dial Dialer) (driver.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(fmt.Errorf("pubsub: %w", err))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, driver.NotSent(fmt.Errorf("pubsub: %w", driver.ErrClosed))
	}
	s := New(dial)
	s.onClose = func() { g.forget(s) }
	if g.open == nil {
		g.open = map[*Subscription]struct{}{}
	}
	g.open[s] = struct{}{}
	return s, nil
}

func (g *Group) forget(s *Subscription) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, s)
}

// Close closes all Subscriptions, and returns nil. From then on Subscribe gives ErrClosed.
func (g *Group) Close() error {
	g.mu.Lock()
	open := g.open
	g.open, g.closed = nil, true
	g.mu.Unlock()
	var wg sync.WaitGroup
	for s := range open {
		wg.Go(func() { _ = s.Close() }) // it always returns nil
	}
	wg.Wait()
	return nil
}
