package rueidis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

var (
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)

type conn struct {
	client rue.Client
	dialer *dialer // nil for a wrapped client
	limit  time.Duration
	gates  []gate        // one, or one for each part of a Cluster's slots
	done   chan struct{} // closed by Close

	oneByOne bool // see mayRedirect

	closing sync.Once
	mu      sync.Mutex
	subs    map[*subscription]struct{} // nil after Close
}

func newConn(client rue.Client, d *dialer, limit time.Duration) *conn {
	parts := 1
	if client.Mode() == rue.ClientModeCluster {
		parts = clusterGates
	}
	c := &conn{
		client: client, dialer: d, limit: limit,
		gates: make([]gate, parts),
		done:  make(chan struct{}),
		subs:  map[*subscription]struct{}{},
	}
	for i := range c.gates {
		c.gates[i] = make(gate, maxInFlight)
	}
	return c
}

func (c *conn) isCluster() bool { return len(c.gates) > 1 }

func (c *conn) isClosed() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if err := c.ready(ctx); err != nil {
		return nil, err
	}
	completed, gate, err := c.build(cmd, c.anyKey())
	if err != nil {
		return nil, err
	}
	result, err := call(ctx, c, gate, func(ctx context.Context) rue.RedisResult {
		return c.client.Do(ctx, completed)
	})
	if err != nil {
		return nil, err
	}
	return c.outcome(ctx, result)
}

// DoBatch implements [driver.Batcher]: one pipeline for each group of commands
// that has a gate of its own.
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	type group struct {
		commands []rue.Completed
		indexes  []int
	}
	results := make([]driver.Result, len(cmds))
	if c.oneByOne {
		for i, cmd := range cmds {
			results[i].Value, results[i].Err = c.Do(ctx, cmd)
		}
		return results
	}
	groups := map[gate]*group{}
	keyless := c.anyKey()
	refused := c.ready(ctx)
	for i, cmd := range cmds {
		if refused != nil {
			results[i].Err = refused
			continue
		}
		completed, gate, err := c.build(cmd, keyless)
		if err != nil {
			results[i].Err = err
			continue
		}
		if groups[gate] == nil {
			groups[gate] = &group{}
		}
		g := groups[gate]
		g.commands, g.indexes = append(g.commands, completed), append(g.indexes, i)
	}
	var wg sync.WaitGroup
	for gate, g := range groups {
		wg.Go(func() {
			replies, err := call(ctx, c, gate, func(ctx context.Context) []rue.RedisResult {
				return c.client.DoMulti(ctx, g.commands...)
			})
			for n, i := range g.indexes {
				if results[i].Err = err; err == nil {
					results[i].Value, results[i].Err = c.outcome(ctx, replies[n])
				}
			}
		})
	}
	wg.Wait()
	return results
}

// ready returns why nothing may be sent.
func (c *conn) ready(ctx context.Context) error {
	if c.isClosed() {
		return driver.NotSent(fmt.Errorf("rueidis: %w", driver.ErrClosed))
	}
	if err := ctx.Err(); err != nil {
		return driver.NotSent(fmt.Errorf("rueidis: %w", err))
	}
	return nil
}

// outcome is what Do returns for a result.
func (c *conn) outcome(ctx context.Context, result rue.RedisResult) (driver.Value, error) {
	if err := result.NonRedisError(); err != nil {
		return nil, c.failure(ctx, err)
	}
	message, _ := result.ToMessage()
	if refusal := serverError(&message); refusal != nil {
		return nil, refusal
	}
	return value(&message)
}

// failure makes an error of the contract from one that is no reply. All of them
// are unknown, except where this package has opened the connections and knows
// that nothing is ever sent twice: then a failed dial, or a slot that nobody
// serves, is what the first attempt came to. A wrapped client may try again by
// itself, so it proves nothing.
//
// rue.ErrClosing does not become driver.ErrClosed, for it is not final: in a
// Cluster or with Sentinels it means that one server was left behind.
func (c *conn) failure(ctx context.Context, err error) error {
	_, undialed := errors.AsType[*dialError](err)
	unsent := c.dialer != nil && (undialed || errors.Is(err, rue.ErrNoSlot))
	if c.dialer != nil {
		err = c.dialer.redact(err)
	}
	if c.isClosed() {
		err = fmt.Errorf("rueidis: %w (%v)", driver.ErrClosed, err)
	} else {
		err = fmt.Errorf("rueidis: %w", ownEnd(ctx, err))
	}
	if unsent {
		return driver.NotSent(err)
	}
	return err
}

// ownEnd returns err so that it matches the error of a ctx only if ctx has ended.
// Dials and handshakes that take too long, and other calls that are cancelled
// while they connect, end with such an error too.
func ownEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("no connection: %v", err)
	}
	return err
}

// Describe implements [driver.Describer].
func (c *conn) Describe(ctx context.Context) (driver.Topology, error) {
	var t driver.Topology
	switch c.client.Mode() {
	case rue.ClientModeCluster:
		t.Mode = driver.ModeCluster
		return t, c.ready(ctx)
	case rue.ClientModeSentinel:
		t.Mode = driver.ModeSentinel
	}
	info, err := c.Do(ctx, driver.Command{Args: []string{"INFO", "server"}})
	if _, refused := errors.AsType[*driver.ServerError](err); refused {
		return t, nil
	}
	if text, ok := info.(string); ok {
		t.RunID = runID(text)
	}
	return t, err
}

// closeGrace is how long Close leaves rueidis to say goodbye to the servers.
const closeGrace = 20 * time.Millisecond

// Close implements [driver.Conn]. Calls in flight return at once.
func (c *conn) Close() error {
	c.closing.Do(func() {
		close(c.done)
		if c.dialer == nil {
			c.closeSubscriptions()
			return
		}
		closed := make(chan struct{})
		go func() {
			defer close(closed)
			c.closeSubscriptions()
			c.client.Close()
			if c.isCluster() { // it closes its servers aside
				time.Sleep(closeGrace)
			}
		}()
		select {
		case <-closed:
		case <-time.After(closeGrace):
		}
		c.dialer.end() // what rueidis still waits for will not come
		<-closed
	})
	return nil
}
