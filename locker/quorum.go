package locker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A QuorumConfig is how the nodes of a quorum are asked: an option of [NewQuorum]. The
// zero value of a field is its default.
type QuorumConfig struct {
	// NodeTimeout bounds how long one node is waited for. It only matters where the
	// other nodes do not decide. It is at least a millisecond; the default is
	// [DefaultNodeTimeout].
	NodeTimeout time.Duration
	// LongestTTL is the longest TTL that any client of these nodes uses, for locks, Extend and
	// Detach. A node that has lost its data takes no part in new locks for that long, since it
	// may have forgotten a lease. All clients need the same value, which has the limits of
	// [TTL]; if it is raised above the age of the nodes, they are left out until they are that
	// old. The default is [DefaultLongestTTL].
	LongestTTL time.Duration
	// Bootstrap lets nodes be used at once if all are new and none has any data of a lock.
	// Without it they are used when LongestTTL has passed. It must not be set where all nodes
	// could have lost their data while a lease was held.
	Bootstrap bool
}

func (q QuorumConfig) applyClient(c *clientConfig) { c.quorum = &q }

// Defaults and fixed times of a quorum.
const (
	// DefaultNodeTimeout is how long one node is waited for unless [QuorumConfig] says
	// otherwise.
	DefaultNodeTimeout = 500 * time.Millisecond
	// DefaultLongestTTL is the longest TTL on a quorum, and how long a node that lost
	// its data is left out, unless [QuorumConfig] says otherwise.
	DefaultLongestTTL = time.Minute

	// proposalSlack is how far the token that a client proposes may lie from a node's
	// own clock; it is at most a quarter of LongestTTL. Twice the slack together with
	// the difference of the nodes' clocks must stay below LongestTTL and the time for
	// which tokens are kept.
	proposalSlack = 5 * time.Second
	// markerLife is how long a node that nobody uses is remembered not to be new, or
	// 4 times LongestTTL where that is longer.
	markerLife = 30 * 24 * time.Hour
	// A node is suspect when more than patience decisions in a row were made without it and
	// it has been silent for half of NodeTimeout, which is longer than a round trip; or when
	// maxLate inquiries that nobody else waits for are waiting for it, which is four round
	// trips' worth. Then no more than maxProbes wait for it, unless it is needed for a
	// majority.
	patience  = 16
	maxLate   = 4 * nodeRequests * batchSize
	maxProbes = 4

	maxNodes = 15
)

// A quorum is an odd number of independent servers. A lock is held where a majority
// holds it.
//
// Source: S. Sanfilippo, "Distributed locks with Redis" (Redlock).
type quorum struct {
	nodes []*node
	cfg   QuorumConfig
	id    string          // of this client's quorum
	ctx   context.Context // ends with close
	// What the nodes are told of it: times in ms, the slack in µs.
	longest, life, slack string

	stop  context.CancelFunc
	wg    sync.WaitGroup // polls
	polls atomic.Int32   // that wait for a decision

	preparing sync.WaitGroup // connections

	crew    aside.Crew // asks the nodes
	current atomic.Pointer[span]
	rests   rests
	timers  sync.Pool // of *time.Timer, stopped

	met atomic.Bool // the nodes have been asked who they are

	diskless diskless

	mu      sync.Mutex
	closed  bool
	ids     map[string]int        // run id, or label → node
	refused atomic.Pointer[error] // why the nodes make no quorum
}

func newQuorum(connectors []driver.Connector, cfg QuorumConfig) (*quorum, error) {
	switch n := len(connectors); {
	case n < 3:
		return nil, invalid(fmt.Sprintf("a quorum of %d; use 3 or 5 independent servers, or New for one", n))
	case n > maxNodes:
		return nil, invalid(fmt.Sprintf("a quorum of %d nodes; the limit is %d", n, maxNodes))
	case n%2 == 0:
		return nil, invalid(fmt.Sprintf("a quorum of %d nodes, which tolerates no more failures than one of %d; use an odd number", n, n-1))
	}
	if cfg.NodeTimeout == 0 {
		cfg.NodeTimeout = DefaultNodeTimeout
	}
	if cfg.LongestTTL == 0 {
		cfg.LongestTTL = DefaultLongestTTL
	}
	switch {
	case cfg.NodeTimeout < time.Millisecond:
		return nil, invalid(fmt.Sprintf("a NodeTimeout of %v; use at least 1ms", cfg.NodeTimeout))
	case cfg.LongestTTL < MinTTL || cfg.LongestTTL > MaxTTL:
		return nil, invalid(fmt.Sprintf("a LongestTTL of %v; use one from %v to %v", cfg.LongestTTL, MinTTL, MaxTTL))
	}
	cfg.LongestTTL = cfg.LongestTTL.Truncate(time.Millisecond) // which is what nodes know of it
	q := &quorum{
		cfg: cfg, id: newID(), ids: map[string]int{},
		longest: millis(cfg.LongestTTL),
		slack:   strconv.FormatInt(min(proposalSlack, cfg.LongestTTL/4).Microseconds(), 10),
	}
	q.life = millis(q.markerLife())
	for i, c := range connectors {
		if c == nil {
			return nil, invalid(fmt.Sprintf("a nil Connector for node %d; use a driver's Wrap function or Open", i))
		}
		q.nodes = append(q.nodes, newNode(q, i, c))
	}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q, nil
}

func (q *quorum) markerLife() time.Duration { return max(markerLife, 4*q.cfg.LongestTTL) }

// checkTTL returns why no lease may be so long.
func (q *quorum) checkTTL(ttl time.Duration) error {
	if ttl > q.cfg.LongestTTL {
		return invalid(fmt.Sprintf("a TTL of %v on a quorum whose LongestTTL is %v; lower it, or raise that for all clients", ttl, q.cfg.LongestTTL))
	}
	return nil
}

func (q *quorum) shard(string) int { return 0 }

func (q *quorum) sharded() bool { return true }

// trusted is not asked where nobody is granted a lock by another's script.
func (q *quorum) trusted() string { return "1" }

func (q *quorum) contacted() bool {
	n := 0
	for _, node := range q.nodes {
		if node.contacted() {
			n++
		}
	}
	return n >= majority(len(q.nodes))
}

func (q *quorum) links() []*link {
	links := make([]*link, len(q.nodes))
	for i, node := range q.nodes {
		links[i] = node.link
	}
	return links
}

func (q *quorum) close() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	// A release that a majority has confirmed is still on its way to the others. They
	// would keep the lock for its TTL.
	late := time.AfterFunc(closeTime, q.stop)
	for _, node := range q.nodes {
		node.sayAgain(true)
	}
	q.wg.Wait()
	for _, node := range q.nodes {
		node.pipeline.hurry()
	}
	for _, node := range q.nodes {
		node.pipeline.close()
	}
	late.Stop()
	q.stop()
	errs := make([]error, len(q.nodes))
	for i, node := range q.nodes {
		errs[i] = node.link.close()
	}
	q.preparing.Wait()
	q.crew.Close()
	return errors.Join(errs...)
}

func (q *quorum) run(ctx context.Context, c call) (driver.Value, error) {
	r := q.runBatch(ctx, []call{c})[0]
	return r.Value, r.Err
}

func (q *quorum) enter() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.wg.Add(1)
	return true
}

func (q *quorum) refuse(why string) {
	err := invalid(why)
	q.refused.Store(&err)
}

// introduced reports whether all nodes have said who they are, or have failed to. A caller that has
// waited for the lock has waited for a node that hangs as well.
func (q *quorum) introduced(b ballot) bool {
	for i, n := range q.nodes {
		if !n.known.Load() && !b[i].in && !n.silent() {
			return false
		}
	}
	return true
}

// fault is why the nodes make no quorum, once that is known. It may be called on nil.
func (q *quorum) fault() error {
	if q == nil {
		return nil
	}
	if err := q.refused.Load(); err != nil {
		return *err
	}
	return nil
}
