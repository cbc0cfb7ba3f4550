package conformance_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golocker/golocker/conformance/internal/resp"
	"github.com/golocker/golocker/locker/driver"
)

// refSub is a Subscription: one goroutine keeps a connection and reads it.
type refSub struct {
	conn   *refConn
	ctx    context.Context // ends at Close
	cancel context.CancelFunc
	done   chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	want    map[string]bool
	acked   map[string]bool // on the connection of now, and nothing takes it back
	leaving map[string]int  // UNSUBSCRIBEs of a channel without an answer
	link    *link           // nil while there is none
	sent    [][]string      // SUBSCRIBE commands without an answer
	again   bool            // the first of them subscribes to all channels again
	refused map[string]error
	queue   []any     // driver.Message or error
	hear    func(any) // takes what the queue would get, while somebody listens
	closed  bool
	twice   bool // bug "sub-add-twice-hears-twice"
}

const pingEvery = 4 * time.Second

func (c *refConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	if c.bug == "subscribe-gives-nil" {
		return nil, nil
	}
	s := &refSub{conn: c, done: make(chan struct{}), changed: make(chan struct{}),
		want: map[string]bool{}, acked: map[string]bool{}, leaving: map[string]int{}, refused: map[string]error{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if s.has("sub-dies-with-ctx") {
		s.ctx, s.cancel = context.WithCancel(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.has("sub-is-shared") {
		for l := range c.live {
			if old, ok := l.(*refSub); ok {
				return old, nil
			}
		}
	}
	if c.done && c.bug != "subscribe-after-close" {
		return nil, driver.NotSent(driver.ErrClosed)
	}
	c.live[s] = struct{}{}
	go s.run()
	if s.has("hides-listener") {
		return struct{ driver.Subscription }{s}, nil
	}
	return s, nil
}

func (s *refSub) has(b bug) bool { return s.conn.bug == b }

func (s *refSub) broadcast() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// due reports whether a SUBSCRIBE has no answer yet.
func (s *refSub) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sent) > 0
}

func (s *refSub) connecting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link == nil
}

func (s *refSub) restored() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.want {
		if s.acked[ch] == s.has("sub-gap-at-first-ack") {
			return s.acked[ch]
		}
	}
	return !s.has("sub-gap-at-first-ack")
}

func (s *refSub) unread() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue)
}

func (s *refSub) Add(ctx context.Context, channels ...string) error {
	if s.has("sub-has-a-connection-for-each-add") {
		if l, err := s.conn.dialFor(ctx, true); err == nil {
			_, _ = l.Write(resp.AppendCommand(nil, append([]string{"SUBSCRIBE"}, channels...)...))
		}
	}
	s.mu.Lock()
	var missing []string
	trusted := map[string]bool{} // bug "sub-added-already-needs-no-ack"
	for _, ch := range channels {
		if s.want[ch] && s.has("sub-add-twice-fails") {
			s.mu.Unlock()
			return fmt.Errorf("reference: already subscribed to %q", ch)
		}
		if s.has("sub-adds-first-only") && len(missing) > 0 {
			break
		}
		if s.want[ch] && s.has("sub-added-already-needs-no-ack") {
			trusted[ch] = true
			continue
		}
		s.twice = s.twice || s.want[ch] && s.has("sub-add-twice-hears-twice")
		s.want[ch] = true
		delete(s.refused, ch)
		if !s.acked[ch] {
			missing = append(missing, ch)
		}
	}
	if len(missing) > 0 && s.link != nil {
		s.send("SUBSCRIBE", missing)
	}
	s.mu.Unlock()
	if len(channels) == 0 && s.has("sub-add-nothing-fails") {
		return driver.NewServerError("ERR wrong number of arguments for 'subscribe' command")
	}
	if s.has("sub-add-without-ack") {
		return nil
	}
	if s.has("sub-given-up-add-is-undone") {
		defer func() {
			if ctx.Err() != nil {
				time.AfterFunc(10*time.Millisecond, func() { _ = s.remove(s.ctx, channels) })
			}
		}()
	}
	return s.wait(ctx, func() (bool, error) {
		for _, ch := range channels {
			if s.has("sub-adds-first-only") && ch != channels[0] {
				continue
			}
			if err := s.refused[ch]; err != nil {
				switch {
				case s.has("sub-ignores-refusal"):
					err = nil
				case s.has("sub-refusal-is-plain"):
					err = errors.New(err.Error())
				}
				return true, err
			}
			if !s.acked[ch] && !trusted[ch] {
				return false, nil
			}
			if s.has("sub-add-waits-for-one-ack") {
				break
			}
		}
		return true, nil
	})
}

func (s *refSub) Remove(ctx context.Context, channels ...string) error {
	if s.has("sub-removes-from-all") {
		for _, other := range s.others() {
			_ = other.remove(ctx, channels)
		}
	}
	return s.remove(ctx, channels)
}

// others are the other Subscriptions of the Conn.
func (s *refSub) others() []*refSub {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	var list []*refSub
	for l := range s.conn.live {
		if other, ok := l.(*refSub); ok && other != s {
			list = append(list, other)
		}
	}
	return list
}

func (s *refSub) remove(ctx context.Context, channels []string) error {
	s.mu.Lock()
	for _, ch := range channels {
		if !s.want[ch] && s.has("sub-remove-unknown-fails") {
			s.mu.Unlock()
			return fmt.Errorf("reference: not subscribed to %q", ch)
		}
		if !s.has("sub-restores-what-was-removed") {
			delete(s.want, ch)
		}
	}
	if len(channels) > 0 && s.link != nil && !s.has("sub-remove-does-nothing") && !s.has("sub-remove-is-not-sent") {
		s.send("UNSUBSCRIBE", channels)
		for _, ch := range channels {
			s.leaving[ch]++
			s.acked[ch] = s.acked[ch] && s.has("sub-add-trusts-what-is-being-removed")
		}
	}
	s.mu.Unlock()
	if s.has("sub-remove-does-nothing") || s.has("sub-remove-is-not-sent") || s.has("sub-remove-without-ack") {
		return nil
	}
	return s.wait(ctx, func() (bool, error) {
		for _, ch := range channels {
			if s.leaving[ch] > 0 {
				return false, nil
			}
		}
		return true, nil
	})
}

// wait waits until ok, called with mu held, is done.
func (s *refSub) wait(ctx context.Context, ok func() (bool, error)) error {
	end := ctx.Done()
	if s.has("sub-ignores-ctx") {
		end = nil
	}
	for {
		if err := ctx.Err(); err != nil && !s.has("sub-ignores-ctx") {
			if s.has("sub-returns-the-cause-of-ctx") {
				return context.Cause(ctx)
			}
			return err
		}
		s.mu.Lock()
		if s.closed && !s.has("sub-close-leaves-waiters") {
			s.mu.Unlock()
			if s.has("sub-close-is-not-told") {
				return errors.New("reference: the connection is closed")
			}
			return driver.ErrClosed
		}
		finished, err := ok()
		changed := s.changed
		s.mu.Unlock()
		if finished {
			return err
		}
		select {
		case <-changed:
		case <-end: // which the next round looks at
		}
	}
}

func (s *refSub) Receive(ctx context.Context) (driver.Message, error) {
	var entry any
	pop := func() (bool, error) {
		if len(s.queue) == 0 {
			return false, nil
		}
		entry, s.queue = s.queue[0], s.queue[1:]
		return true, nil
	}
	if s.has("sub-receive-loses") && ctx.Err() != nil {
		s.mu.Lock()
		_, _ = pop()
		s.mu.Unlock()
	}
	if s.has("sub-receive-loses-gap") && ctx.Err() != nil {
		s.mu.Lock()
		if len(s.queue) > 0 && s.queue[0] == driver.ErrGap {
			_, _ = pop()
		}
		s.mu.Unlock()
	}
	if s.has("sub-receive-polls") {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
	}
	if err := s.wait(ctx, pop); err != nil {
		return driver.Message{}, err
	}
	if err, ok := entry.(error); ok {
		return driver.Message{}, err
	}
	return entry.(driver.Message), nil
}

// waitForReceiver is the bug that the connection is read in Receive only, made
// simple: reading stops while messages are queued.
func (s *refSub) waitForReceiver() {
	for {
		s.mu.Lock()
		empty, changed, closed := len(s.queue) == 0, s.changed, s.closed
		s.mu.Unlock()
		if empty || closed {
			return
		}
		select {
		case <-changed:
		case <-time.After(time.Millisecond):
		}
	}
}

func (s *refSub) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		if s.has("sub-close-twice-fails") {
			return driver.ErrClosed
		}
		return nil
	}
	s.closed = true
	s.broadcast()
	s.mu.Unlock()
	if s.has("sub-closes-all") {
		for _, other := range s.others() {
			_ = other.Close()
		}
	}
	if s.has("sub-close-leaves-connection") {
		return nil
	}
	s.cancel()
	<-s.done
	s.conn.mu.Lock()
	delete(s.conn.live, s)
	s.conn.mu.Unlock()
	return nil
}
