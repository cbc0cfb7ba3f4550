package locker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

// A Client takes locks on one deployment: a server, a master that Sentinels watch, or a
// Cluster. It is safe for concurrent use; an application needs one for each deployment. It
// comes from [New], [Open] or [NewQuorum]; the zero Client is of no use: its locks and its
// Close return [ErrInvalid].
type Client struct {
	deployment deployment
	quorum     *quorum // nil on one deployment
	store      *store
	watchdog   *watchdog
	hub        *hub
	cfg        clientConfig
	observers  *observers      // nil if there are none
	tail, px   string          // of a Mutex without options of its own
	ctx        context.Context // ends with Close
	stop       context.CancelFunc

	acquireContexts *contextPool // of requests that take a lock: they end with the client
	otherContexts   *contextPool // of the others

	attaching   attaching
	holdings    holdings
	lines       lines
	waiterLimit waiterLimit
	contention  *contention

	mu         sync.Mutex
	calls      int           // in progress
	idle       chan struct{} // closed when calls falls to 0, if somebody waits for that
	closing    bool
	closed     chan struct{}        // closed when Close is done
	unreleased map[string]time.Time // for locks whose release was never confirmed: until when they may be held
	err        error                // of Close
}

// New returns a client on connector, which comes from a driver's Wrap function or its
// OpenConnector. New does no I/O; a wrong address shows at the first lock. Its error is
// [ErrInvalid]: for a nil connector, or an option that cannot be used.
//
// Close the client when it is no longer needed. That leaves a wrapped Redis client
// open.
func New(connector driver.Connector, opts ...ClientOption) (*Client, error) {
	if connector == nil {
		return nil, invalid("a nil Connector; use a driver's Wrap function or Open")
	}
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if cfg.quorum != nil {
		return nil, invalid("a QuorumConfig for one deployment; use NewQuorum")
	}
	l := newLink(connector)
	return newClient(&store{link: l, deployment: l}, nil, cfg), nil
}

// NewQuorum returns a client whose locks are held where a majority of independent servers holds
// them. The number of servers is odd, from 3 to 15, and a minority of them may fail. They may
// be reached through different drivers. Package redlock is the convenient form, and its
// documentation says what a quorum promises and what it does not.
//
// Like New it does no I/O, and its error is [ErrInvalid], also for a wrong number of
// connectors. That two of them lead to the same server, or one to a Cluster, shows at the first
// lock, also as ErrInvalid.
func NewQuorum(connectors []driver.Connector, opts ...ClientOption) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	if cfg.quorum == nil {
		cfg.quorum = &QuorumConfig{}
	}
	q, err := newQuorum(connectors, *cfg.quorum)
	if err != nil {
		return nil, err
	}
	if err := q.checkTTL(max(cfg.lock.ttl, cfg.lock.readTTL)); err != nil {
		return nil, err
	}
	return newClient(&store{deployment: q}, q, cfg), nil
}

func zeroClient() error {
	return invalid("a zero Client; use what New, Open or NewQuorum has returned")
}

func newConfig(opts []ClientOption) (clientConfig, error) {
	cfg := clientConfig{
		label: defaultLabel(), maxWaiters: DefaultMaxWaiters,
		lock: lockConfig{mode: modeMutex, attemptTimeout: DefaultAttemptTimeout, renew: true},
	}
	for _, o := range opts {
		if o == nil {
			return cfg, invalid("a nil ClientOption; leave it out")
		}
		o.applyClient(&cfg)
	}
	if cfg.lock.ttl == 0 {
		cfg.lock.ttl = DefaultTTL
		if q := cfg.quorum; q != nil && q.LongestTTL >= MinTTL {
			cfg.lock.ttl = min(DefaultTTL, q.LongestTTL.Truncate(time.Millisecond))
		}
	}
	return cfg, cfg.check()
}

func newClient(s *store, q *quorum, cfg clientConfig) *Client {
	d := s.deployment
	c := &Client{
		deployment: d, quorum: q, store: s, watchdog: newWatchdog(d), hub: newHub(d.links()), cfg: cfg,
		tail: cfg.label + "|" + cfg.lock.metadata, px: millis(cfg.lock.ttl),
		contention: newContention(), closed: make(chan struct{}), observers: newObservers(cfg.observers),
	}
	c.hub.observers, c.waiterLimit.limit = c.observers, int64(cfg.maxWaiters)
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.acquireContexts, c.otherContexts = newContextPool(c.ctx), newContextPool(context.Background())
	if c.observers != nil {
		if q != nil {
			q.diskless.warn = func(node int) { c.observers.warning(disklessWarning(node)) }
			if cfg.lock.fenced {
				q.diskless.lockFenced()
			}
		}
		for node, l := range d.links() {
			l.greeted = func(conn driver.Conn) { c.survey(node, l, conn) }
		}
	}
	return c
}

func defaultLabel() string {
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
	return fmt.Sprintf("%s:%d", host[:min(len(host), 200)], os.Getpid())
}

// enter counts a call that may take a lock, unless the client is closing; leave
// ends it.
func (c *Client) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrClosed
	}
	c.calls++
	return nil
}

// join counts a call about a lease that exists; Close waits for it.
func (c *Client) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls++
}

func (c *Client) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	if c.calls == 0 && c.idle != nil {
		close(c.idle)
		c.idle = nil
	}
}

// settle waits until no call is in progress, within bounds.
func (c *Client) settle(within time.Duration) {
	c.mu.Lock()
	if c.calls == 0 {
		c.mu.Unlock()
		return
	}
	if c.idle == nil {
		c.idle = make(chan struct{})
	}
	idle := c.idle
	c.mu.Unlock()
	await(nil, idle, within)
}

// maxMissed bounds how many locks that were missed an open client remembers.
const maxMissed = 1024

// missed notes a lock whose release nobody pursues any more, for Close to report. The
// lock is free at lapse.
func (c *Client) missed(name string, lapse time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.unreleased) >= maxMissed {
		maps.DeleteFunc(c.unreleased, lapsed)
	}
	if c.unreleased == nil {
		c.unreleased = map[string]time.Time{}
	}
	if (c.closing || len(c.unreleased) < maxMissed) && c.unreleased[name].Before(lapse) {
		c.unreleased[name] = lapse
	}
}

func lapsed(_ string, lapse time.Time) bool { return !time.Now().Before(lapse) }

// sleep waits for d. It returns the ctx's error, or ErrClosed.
func (c *Client) sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(max(d, soonest))
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

// await waits for done, at most for within and until ended is closed, if that is not nil. It tells whether
// done was closed.
func await(ended, done <-chan struct{}, within time.Duration) bool {
	timer := time.NewTimer(max(within, soonest))
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
	case <-ended:
	}
	return false
}

// closeTime bounds each of the two parts of Close: waiting for calls in progress,
// and releasing.
const closeTime = 5 * time.Second

// Close ends the client. Waiting Lock calls return with [ErrClosed]. Leases that are still held
// end: their contexts end with a cause that is ErrLost and ErrClosed, and their locks are
// released. Close then closes the connections that the client has opened, and none of the
// client's goroutines is left. (The driver's documentation says what its client library may
// need for its own timeouts.)
//
// The error names the locks whose release the server did not confirm within 5 seconds, and
// those that an earlier outage has left behind and that have not lapsed yet; all of them are
// free when their TTL has passed. (Close waits for nothing where the application has closed its
// own client before.) Places in the queues of locks that calls have waited for are given up
// within a second, or lapse. Close may be called again; it gives the same answer.
func (c *Client) Close() error {
	if c.store == nil {
		return zeroClient()
	}
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		<-c.closed
		return c.err
	}
	c.closing = true
	maps.DeleteFunc(c.unreleased, lapsed)
	c.mu.Unlock()
	defer close(c.closed)

	c.lines.close()
	c.stop()
	c.settle(closeTime)
	c.finish(c.watchdog.close(), closeTime)
	c.settle(time.Second)                          // an Unlock that was faster than the watchdog's end
	c.finish(c.watchdog.closeLate(), optionalTime) // what that has left to the background
	c.hub.close()
	c.err = c.deployment.close()
	c.settle(time.Second) // an Unlock whose request was ended by that
	c.observers.close()

	c.mu.Lock()
	defer c.mu.Unlock()
	if names := slices.Sorted(maps.Keys(c.unreleased)); len(names) > 0 {
		c.err = errors.Join(failed(fmt.Sprintf("close: %d locks may not have been released, and are free when their TTL has passed: %.500q", len(names), names), ErrUnknown), c.err)
	}
	return c.err
}
