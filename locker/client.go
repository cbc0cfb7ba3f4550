package locker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A Client takes locks on one deployment: a server, a master that Sentinels watch,
// or a Cluster. It is safe for concurrent use; an application needs one for each
// deployment.
type Client struct {
	link  *link
	store *store
	dog   *watchdog
	hub   *hub
	cfg   clientConfig
	ctx   context.Context // ends with Close
	stop  context.CancelFunc

	mu      sync.Mutex
	calls   int           // of Lock and its like, in progress
	idle    chan struct{} // closed when calls falls to 0 while closing
	closing bool
	closed  chan struct{} // closed when Close is done
	err     error         // of Close
}

// New returns a client on connector, which comes from a driver's Wrap function or
// its OpenConnector. New does no I/O; a wrong address shows at the first lock.
//
// Close the client when it is no longer needed. That leaves a wrapped Redis client
// open.
func New(connector driver.Connector, opts ...ClientOption) (*Client, error) {
	if connector == nil {
		return nil, invalid("a nil Connector; use a driver's Wrap function or Open")
	}
	cfg := clientConfig{
		owner: defaultOwner(),
		lock:  lockConfig{ttl: DefaultTTL, attemptTimeout: DefaultAttemptTimeout, renew: true},
	}
	for _, o := range opts {
		if o == nil {
			return nil, invalid("a nil ClientOption; leave it out")
		}
		o.applyClient(&cfg)
	}
	if err := cfg.check(); err != nil {
		return nil, err
	}
	l := newLink(connector)
	c := &Client{
		link: l, store: &store{link: l}, dog: newWatchdog(l), hub: newHub(l), cfg: cfg,
		idle: make(chan struct{}), closed: make(chan struct{}),
	}
	c.ctx, c.stop = context.WithCancel(context.Background())
	return c, nil
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "?"
	}
	host = strings.Map(func(r rune) rune {
		if r < ' ' || r == '|' || r == 0x7f {
			return '?'
		}
		return r
	}, host)
	return fmt.Sprintf("%.200s:%d", host, os.Getpid())
}

// enter counts a call that may take a lock; leave ends it.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	c.calls++
	return nil
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	if c.calls == 0 && c.closing {
		close(c.idle)
	}
}

// sleep waits for d. It returns the ctx's error, or ErrClosed.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-c.ctx.Done():
		return ErrClosed
	}
}

// closeTime bounds each of the two parts of Close: waiting for calls in progress,
// and releasing.
const closeTime = 5 * time.Second

// Close ends the client. Waiting Lock calls return with [ErrClosed]. Leases that are
// still held end: their contexts end with a cause that is ErrLost and ErrClosed, and
// their locks are released. It then closes the connections that the client has
// opened, and no goroutine of it is left.
//
// The error names the locks whose release the server did not confirm within 5
// seconds; they are free when their TTL has passed. Close may be called again; it
// gives the same answer.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		<-c.closed
		return c.err
	}
	c.closing = true
	if c.calls == 0 {
		close(c.idle)
	}
	c.mu.Unlock()
	defer close(c.closed)

	c.stop()
	timer := time.NewTimer(closeTime)
	select {
	case <-c.idle:
	case <-timer.C:
	}
	timer.Stop()
	unconfirmed := c.finish(c.dog.close())
	c.hub.close()
	c.err = c.link.close()
	if len(unconfirmed) > 0 {
		slices.Sort(unconfirmed)
		c.err = errors.Join(fmt.Errorf("locker: close: %w whether %d locks were released; they are free when their TTL has passed: %.500q",
			ErrUnknown, len(unconfirmed), unconfirmed), c.err)
	}
	return c.err
}

// finish makes the last request of every job and returns the names of the locks
// that are not certainly released.
func (c *Client) finish(jobs []*job) (unconfirmed []string) {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	for batch := range slices.Chunk(jobs, batchSize) {
		var calls []call
		var names []string
		var leases []*Lease
		for _, j := range batch {
			switch t := j.task.(type) {
			case *Lease:
				calls, leases = append(calls, t.closeCall()), append(leases, t)
				names = append(names, t.Name())
			case *errand:
				calls, leases = append(calls, t.call), append(leases, nil)
				names = append(names, t.name)
			}
		}
		for i, r := range c.link.runBatch(ctx, calls) {
			if leases[i] != nil && leases[i].closeReply(r) || leases[i] == nil && r.Err == nil {
				continue
			}
			unconfirmed = append(unconfirmed, names[i])
		}
	}
	return unconfirmed
}
