package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
)

// A link is a driver.Conn that connects at the first use, and again after a
// failure to connect.
type link struct {
	connector driver.Connector
	open      atomic.Pointer[connection]
	turn      chan struct{} // holds one token: whoever takes it may connect
	mu        sync.Mutex    // guards closed against a Connect that is just done
	closed    bool

	// answered tells that the server has replied at least once. Until then a
	// failure is more likely a wrong address than an outage.
	answered  atomic.Bool
	described atomic.Bool // the deployment has told what it is
	counts    atomic.Bool // PUBLISH counts all receivers
	cluster   atomic.Bool // keys lie on several nodes
	noBundles atomic.Bool // a call about several locks cannot be relied on

	misled atomic.Bool // a node of a Cluster has said that it is one, to a client that is for a single server

	asked      atomic.Pointer[time.Time] // when it was asked last what it is
	describing sync.WaitGroup            // what asks that beside the calls

	greeted func(driver.Conn) // is told of the first reply; may be nil
	met     atomic.Bool       // it has been
	failed  int               // surveys in a row that have; only one is made at a time
	crew    aside.Crew        // sends batches
}

// A connection is a Conn with what batches its commands, one for each part of the
// deployment; none where the Conn is no [driver.Batcher].
type connection struct {
	driver.Conn
	batchers  []*commandBatcher
	describes bool // it is a [driver.Describer]
}

func newLink(c driver.Connector) *link {
	return &link{connector: c, turn: make(chan struct{}, 1)}
}

// get returns the Conn. Its errors are marked not sent: no command was.
func (l *link) get(ctx context.Context) (driver.Conn, error) {
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	return c.Conn, nil
}

// connect returns the connection, and makes it at the first call.
func (l *link) connect(ctx context.Context) (*connection, error) {
	if c := l.open.Load(); c != nil {
		if c.describes && !l.described.Load() {
			l.describeAgain(c.Conn)
		}
		return c, nil
	}
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return nil, driver.NotSent(ctx.Err())
	}
	return l.dial(ctx)
}

// dial is connect without waiting for others that do the same. It is for callers that have
// more time than a request. A request must not wait for such a dial: where packets are
// lost, it may try in vain for all of that time, though a new try would succeed.
func (l *link) dial(ctx context.Context) (*connection, error) {
	if c := l.open.Load(); c != nil {
		return c, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, driver.NotSent(err)
	}
	conn, err := l.connector.Connect(ctx)
	if err != nil {
		return nil, driver.NotSent(fmt.Errorf("connect: %w", err))
	}
	if conn == nil {
		return nil, driver.NotSent(fmt.Errorf("the driver's Connect gave neither a Conn nor an error: %w", driver.ErrUnsupported))
	}
	l.describe(ctx, conn)
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.open.Load()
	if l.closed || c != nil {
		conn.Close()
		if l.closed {
			return nil, driver.NotSent(ErrClosed)
		}
		return c, nil
	}
	c = l.newConnection(conn)
	l.open.Store(c)
	return c, nil
}

func (l *link) newConnection(conn driver.Conn) *connection {
	c := &connection{Conn: conn}
	_, c.describes = conn.(driver.Describer)
	if _, ok := conn.(driver.Batcher); ok {
		parts := 1
		if l.cluster.Load() || c.describes && !l.described.Load() {
			parts = shards // or it may turn out to be a Cluster later
		}
		for range parts {
			c.batchers = append(c.batchers, newCommandBatcher(conn, &l.crew))
		}
	}
	return c
}

const (
	// describeTime bounds what finding out about the deployment may take from a call.
	describeTime = 500 * time.Millisecond
	// describePause is how soon a deployment that did not answer is asked again.
	describePause = time.Second
)

// describe finds out once whether the deployment is a Cluster, and so how PUBLISH counts. Until
// there is an answer, it is not taken for one, and that count is not trusted.
func (l *link) describe(ctx context.Context, conn driver.Conn) {
	d, ok := conn.(driver.Describer)
	if !ok || l.described.Load() {
		return
	}
	now := time.Now()
	l.asked.Store(&now)
	ctx, cancel := context.WithTimeout(ctx, describeTime)
	defer cancel()
	topology, err := d.Describe(ctx)
	if cluster := topology.Mode == driver.ModeCluster; err == nil || cluster { // any other Mode may be no answer
		l.counts.Store(!cluster)
		l.cluster.Store(cluster)
		l.described.Store(true)
	}
}

// describeAgain has that found out beside the calls, once in a while, where there was no
// answer.
func (l *link) describeAgain(conn driver.Conn) {
	now, last := time.Now(), l.asked.Load()
	if now.Sub(*last) < describePause || !l.asked.CompareAndSwap(last, &now) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.describing.Go(func() { l.describe(context.Background(), conn) })
	}
}

func (l *link) contacted() bool { return l.answered.Load() }

func (l *link) links() []*link { return []*link{l} }

// shard returns the part of the deployment where key is.
func (l *link) shard(key string) int {
	if !l.cluster.Load() {
		return 0
	}
	return driver.Slot(key) * shards / driver.Slots
}

func (l *link) sharded() bool { return l.cluster.Load() }

// trusted is "1" where a script can tell by the count of PUBLISH that a waiter no
// longer listens. In a Cluster the count is that of one node.
func (l *link) trusted() string { return flag(l.counts.Load()) }

func (l *link) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	c := l.open.Load()
	if c == nil {
		return nil
	}
	err := c.Close() // which ends all requests
	for _, b := range c.batchers {
		b.pipeline.close()
	}
	l.describing.Wait()
	l.crew.Close()
	return err
}

// do sends one command, together with those of other callers.
func (l *link) do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	c, err := l.connect(ctx)
	if err != nil {
		return nil, err
	}
	var v driver.Value
	if c.batchers == nil {
		v, err = c.Do(ctx, cmd)
	} else {
		v, err = c.batchers[l.part(cmd)].do(ctx, cmd)
	}
	return v, l.learn(ctx, c.Conn, err)
}

// part is the part of the deployment that cmd is for.
func (l *link) part(cmd driver.Command) int {
	if cmd.NumKeys == 0 {
		return 0
	}
	return l.shard(cmd.Args[cmd.FirstKey])
}

// doAlone sends one command by itself.
func (l *link) doAlone(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	conn, err := l.get(ctx)
	if err != nil {
		return nil, err
	}
	v, err := conn.Do(ctx, cmd)
	return v, l.learn(ctx, conn, err)
}

func (l *link) doBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	if len(cmds) == 1 {
		v, err := l.doAlone(ctx, cmds[0])
		return []driver.Result{{Value: v, Err: err}}
	}
	conn, err := l.get(ctx)
	if err != nil {
		return slices.Repeat([]driver.Result{{Err: err}}, len(cmds))
	}
	results := driver.DoBatch(ctx, conn, cmds)
	for _, r := range results {
		l.note(r.Err)
	}
	l.unmask(ctx, conn, results)
	return results
}

// learn notes the outcome of a single command, and returns what to say of it.
func (l *link) learn(ctx context.Context, conn driver.Conn, err error) error {
	l.note(err)
	if err == nil {
		return nil
	}
	results := []driver.Result{{Err: err}}
	l.unmask(ctx, conn, results)
	return results[0].Err
}

// unmask says what has to be mended where a node of a Cluster, which was given as a single server,
// sends the client to another node: nobody ever asks that other node, however long one waits.
func (l *link) unmask(ctx context.Context, conn driver.Conn, results []driver.Result) {
	if !l.described.Load() || l.cluster.Load() || !slices.ContainsFunc(results, moved) || !l.misleads(ctx, conn) {
		return
	}
	for i, r := range results {
		if moved(r) {
			results[i].Err = fmt.Errorf("%w: the server is a node of a Cluster: say so by mode=cluster in the DSN, or wrap a client for a Cluster (%w)", ErrInvalid, r.Err)
		}
	}
}

func moved(r driver.Result) bool {
	reply, ok := errors.AsType[*driver.ServerError](r.Err)
	return ok && reply.Code == "MOVED"
}

// misleads asks the server itself whether it is a node of a Cluster and has a part of it. A proxy
// that spreads the keys over a Cluster may pass a MOVED on, and goes to the right node soon. The
// same holds where there is only one part: its former master sends everything to the new one, and
// the address leads there soon.
func (l *link) misleads(ctx context.Context, conn driver.Conn) bool {
	if l.misled.Load() {
		return true
	}
	for _, ask := range []struct{ section, answer string }{{"server", "_mode:cluster"}, {"replication", "role:master"}} { // redis_mode, or server_mode of Valkey
		info, _ := conn.Do(ctx, driver.Command{Args: []string{"INFO", ask.section}})
		if text, _ := info.(string); !strings.Contains(text, ask.answer) {
			return false
		}
	}
	l.misled.Store(true)
	return true
}

func (l *link) note(err error) {
	if l.met.Load() || err != nil && driver.OutcomeOf(err) != driver.OutcomeReplied {
		return
	}
	l.answered.Store(true)
	if l.met.CompareAndSwap(false, true) && l.greeted != nil {
		l.greeted(l.open.Load().Conn)
	}
}
