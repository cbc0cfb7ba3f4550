package conformance

import (
	"context"
	"sync"

	"github.com/golocker/golocker/locker/driver"
)

// A mailConnector makes Conns whose messages all go into a mailbox.
type mailConnector struct {
	driver.Connector
	box *mailbox
}

// Connect implements driver.Connector.
func (c mailConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil || conn == nil {
		return nil, err
	}
	inside, ok := conn.(driver.Subscriber)
	if !ok { // which Capabilities/Declared has told already
		_ = conn.Close()
		return nil, errNoSubscriber
	}
	return mailConn{driver.Wrapper{Conn: conn}, inside, c.box}, nil
}

type mailConn struct {
	driver.Wrapper
	inside driver.Subscriber
	box    *mailbox
}

var _ driver.Subscriber = mailConn{}

// Subscribe implements driver.Subscriber.
func (c mailConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	sub, err := c.inside.Subscribe(ctx)
	if err != nil || sub == nil {
		return nil, err
	}
	s := &mailSubscription{Subscription: sub, box: c.box, inbox: make(chan driver.Message, 16), failures: make(chan error)}
	s.ctx, s.stop = context.WithCancel(context.Background())
	c.box.attach(s.inbox)
	s.running.Go(s.collect)
	return s, nil
}

// A mailSubscription receives what the mailbox delivers.
type mailSubscription struct {
	driver.Subscription
	box      *mailbox
	inbox    chan driver.Message
	failures chan error

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	running sync.WaitGroup
}

// collect puts what arrives into the mailbox.
func (s *mailSubscription) collect() {
	for s.ctx.Err() == nil {
		m, err := s.Subscription.Receive(s.ctx)
		if err == nil {
			s.box.put(m)
			continue
		}
		select {
		case s.failures <- err:
		case <-s.ctx.Done():
		}
	}
}

// Add implements driver.Subscription.
func (s *mailSubscription) Add(ctx context.Context, channels ...string) error {
	err := s.Subscription.Add(ctx, channels...)
	if err == nil {
		s.box.addressed()
	}
	return err
}

// Receive implements driver.Subscription.
func (s *mailSubscription) Receive(ctx context.Context) (driver.Message, error) {
	select {
	case m := <-s.inbox:
		return m, nil
	case err := <-s.failures:
		return driver.Message{}, err
	case <-ctx.Done():
		return driver.Message{}, ctx.Err()
	}
}

// Close implements driver.Subscription.
func (s *mailSubscription) Close() error {
	s.stop()
	err := s.Subscription.Close()
	s.running.Wait()
	return err
}

// A mailbox withholds messages until it is told to deliver them.
type mailbox struct {
	listens chan struct{} // closed once the server has acknowledged a channel

	mu       sync.Mutex
	withheld []driver.Message
	to       chan<- driver.Message
}

func newMailbox() *mailbox { return &mailbox{listens: make(chan struct{})} }

func (b *mailbox) addressed() {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-b.listens:
	default:
		close(b.listens)
	}
}

func (b *mailbox) attach(to chan<- driver.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.to = to
}

func (b *mailbox) put(m driver.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.withheld = append(b.withheld, m)
}

// count returns how many messages are withheld.
func (b *mailbox) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.withheld)
}

// deliver lets all messages arrive that were withheld until now.
func (b *mailbox) deliver() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.withheld {
		b.to <- m
	}
	b.withheld = nil
}
