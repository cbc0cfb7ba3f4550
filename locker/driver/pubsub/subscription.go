package pubsub

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

var (
	_ driver.Subscription = (*Subscription)(nil)
	_ driver.Listener     = (*Subscription)(nil)
)

// A Subscription is a [driver.Subscription] over the connections of a
// [Dialer], one at a time. The first Add opens the first one.
//
// An Add waits through lost connections and failed dials until its channels are
// acknowledged or its ctx ends. As long as no server has ever answered, though,
// a failure is returned to the Adds that wait for it, so that a wrong address
// or password shows at once.
//
// A connection that is lost is replaced as long as there are channels or an Add
// waits. If the server refuses to subscribe to all channels again (its ACL has
// changed), the connection counts as lost too; until the server relents, Adds
// wait and no gap is reported.
type Subscription struct {
	dial   Dialer
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	ended  chan struct{} // closed at the end of run
	wake   chan struct{} // tells run or its writer that there may be work
	ready  chan struct{} // tells Receive that inbox may have an item

	onClose func() // of the Group, if any

	mu       sync.Mutex
	running  bool                // run has been started
	answered bool                // a server has sent something, ever
	want     map[string]struct{} // the channels acknowledged and not removed
	queue    []*request          // of callers, not handed to the present connection
	link     *link               // the present connection, if any
	gapDue   bool                // connect, subscribe to all of want again, report a gap
	failure  error               // why there is no connection
	inbox    inbox
	listener func(driver.Message, error) // takes what the inbox would get, if somebody listens
}

// New returns a Subscription without channels. It connects at the first Add.
func New(dial Dialer) *Subscription {
	ctx, cancel := context.WithCancel(context.Background())
	return &Subscription{
		dial:   dial,
		ctx:    ctx,
		cancel: cancel,
		ended:  make(chan struct{}),
		wake:   make(chan struct{}, 1),
		ready:  make(chan struct{}, 1),
		want:   make(map[string]struct{}),
	}
}

// Add implements [driver.Subscription]. All channels of one Add go in one
// SUBSCRIBE, which a server refuses as a whole if it refuses one of them.
//
// An error is marked by [driver.NotSent] if no part of the SUBSCRIBE was ever
// handed to a connection.
func (s *Subscription) Add(ctx context.Context, channels ...string) error {
	return s.do(ctx, subscribe, channels)
}

// Remove implements [driver.Subscription]. While there is no connection, there
// is nothing to acknowledge: the channels are forgotten and Remove returns nil.
func (s *Subscription) Remove(ctx context.Context, channels ...string) error {
	return s.do(ctx, unsubscribe, channels)
}

func (s *Subscription) do(ctx context.Context, v verb, channels []string) error {
	if err := ctx.Err(); err != nil {
		return driver.NotSent(fmt.Errorf("pubsub: %s: %w", v, err))
	}
	r := newRequest(v, channels)
	if done, err := s.enqueue(r); done {
		return err
	}
	select {
	case err := <-r.result:
		return err
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	return s.leave(r, ctx.Err())
}

// enqueue hands r on, or reports that there is nothing to wait for.
func (s *Subscription) enqueue(r *request) (done bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil {
		return true, s.closedError(r)
	}
	if len(r.channels) == 0 { // UNSUBSCRIBE alone would mean all channels
		return true, nil
	}
	if r.verb == unsubscribe && s.link == nil {
		s.forget(r.channels)
		return true, nil
	}
	s.queue = append(s.queue, r)
	if !s.running {
		s.running = true
		go s.run()
	}
	signal(s.wake)
	return false, nil
}

// leave ends the caller's wait for r, because of ctxErr, or else because of Close.
func (s *Subscription) leave(r *request, ctxErr error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case err := <-r.result: // it came at the same moment
		return err
	default:
	}
	r.gone = true
	if i := slices.Index(s.queue, r); i >= 0 {
		s.queue = slices.Delete(s.queue, i, i+1)
	}
	if s.ctx.Err() != nil {
		return s.closedError(r)
	}
	err := fmt.Errorf("pubsub: %s: no acknowledgement: %w", r.verb, ctxErr)
	if s.link == nil && s.failure != nil {
		// Not wrapped: what befell the connection is not the outcome of r.
		err = fmt.Errorf("%w (not connected: %v)", err, s.failure)
	}
	return notSentUnless(r.sent, err)
}

func (s *Subscription) closedError(r *request) error {
	return notSentUnless(r.sent, fmt.Errorf("pubsub: %s: %w", r.verb, driver.ErrClosed))
}

func notSentUnless(sent bool, err error) error {
	if sent {
		return err
	}
	return driver.NotSent(err)
}

func (s *Subscription) forget(channels []string) {
	for _, c := range channels {
		delete(s.want, c)
	}
}

// Receive implements [driver.Subscription]. Up to [MaxBuffered] messages wait
// for it. It is also what one calls to hear of gaps; it does not connect.
func (s *Subscription) Receive(ctx context.Context) (driver.Message, error) {
	for {
		if s.ctx.Err() != nil {
			return driver.Message{}, driver.NotSent(fmt.Errorf("pubsub: receive: %w", driver.ErrClosed))
		}
		if err := ctx.Err(); err != nil {
			return driver.Message{}, err
		}
		s.mu.Lock()
		next, ok := s.inbox.take()
		s.mu.Unlock()
		switch {
		case ok && next.gap:
			return driver.Message{}, driver.ErrGap
		case ok:
			return next.message, nil
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
		case <-s.ctx.Done():
		}
	}
}

// Listen implements [driver.Listener]. hear is called by the goroutine that reads.
func (s *Subscription) Listen(ctx context.Context, hear func(driver.Message, error)) error {
	s.mu.Lock()
	for next, ok := s.inbox.take(); ok; next, ok = s.inbox.take() {
		next.tell(hear)
	}
	s.listener = hear
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
	s.mu.Lock()
	s.listener = nil
	s.mu.Unlock()
	if s.ctx.Err() != nil {
		return driver.NotSent(fmt.Errorf("pubsub: listen: %w", driver.ErrClosed))
	}
	return ctx.Err()
}

// deliver passes i to the listener if there is one, or else to the inbox. It needs mu.
func (s *Subscription) deliver(i item) {
	if s.listener != nil {
		i.tell(s.listener)
		return
	}
	s.inbox.add(i)
	signal(s.ready)
}

// Close implements [driver.Subscription]. It returns when the connection is
// closed and no goroutine is left.
func (s *Subscription) Close() error {
	if s.onClose != nil {
		s.onClose()
	}
	s.cancel()
	s.mu.Lock() // after this, enqueue starts no goroutine
	running := s.running
	s.mu.Unlock()
	if running {
		<-s.ended
	}
	return nil
}

// signal puts a token into c unless there is one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
