package redigo

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A conn sends commands through a pool, which is its own or the application's.
type conn struct {
	pool     *redis.Pool
	dial     func(context.Context) (redis.Conn, error) // makes a connection like those of pool
	mode     driver.Mode
	patience time.Duration // the longest wait for a connection of pool
	silence  time.Duration // the longest wait for a reply
	prompt   promptness
	distrust func(since time.Time) // has idle connections dropped that were last used before
	close    func()                // closes what was opened

	calls         sync.Pool    // those that are over, and that nobody knows any more
	underway      underway     // those that Close cuts
	severable     atomic.Bool  // pool's connections can be severed
	turns         atomic.Int64 // of other goroutines in pool, which are over
	subscriptions pubsub.Group
	life          context.Context // ends with Close
	end           context.CancelFunc
}

// Format implements [fmt.Formatter], so that no way of printing shows a password, or
// reads what calls are changing.
func (*conn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redigo.Conn") }

// A promptness tells when getting a connection of a pool ends as soon as ctx does.
type promptness int

const (
	never    promptness = iota
	whenIdle            // when one is idle
	always
)

// promptnessOf is that of an application's pool, whose functions may do anything.
func promptnessOf(pool *redis.Pool) promptness {
	if pool.DialContext == nil || pool.TestOnBorrow != nil || pool.TestOnBorrowContext != nil {
		return never
	}
	return whenIdle
}

// wrapPool returns a conn on the application's pool, of which it closes nothing.
func wrapPool(pool *redis.Pool) (*conn, error) {
	if pool == nil || pool.Dial == nil && pool.DialContext == nil {
		return nil, fmt.Errorf("redigo: Wrap was given a nil *redis.Pool, or one without Dial and DialContext: %w", driver.ErrUnsupported)
	}
	dial := pool.DialContext
	if dial == nil {
		dial = func(context.Context) (redis.Conn, error) { return pool.Dial() }
	}
	return &conn{
		pool:     pool,
		dial:     dial,
		patience: driver.DefaultTimeout,
		silence:  driver.DefaultTimeout,
		prompt:   promptnessOf(pool),
		distrust: func(time.Time) {},
		close:    func() {},
	}, nil
}

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	k := newCall(c, ctx)
	k.one[0] = cmd
	k.cmds, k.results = k.one[:], k.its[:]
	if err := k.make(); err != nil {
		return nil, err
	}
	result := k.results[0]
	k.recycle()
	return result.Value, result.Err
}

// DoBatch implements [driver.Batcher]: one pipeline on one connection, read
// while it is written, because a server may stop reading while nobody takes its
// replies.
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	if len(cmds) == 0 {
		return results
	}
	k := newCall(c, ctx)
	k.cmds, k.results = cmds, results
	if err := k.make(); err != nil {
		return slices.Repeat([]driver.Result{{Err: err}}, len(cmds))
	}
	k.recycle()
	return results
}

// Describe implements [driver.Describer]. The application's pool counts as
// [driver.ModeSingle], whatever its Dial function does.
func (c *conn) Describe(ctx context.Context) (driver.Topology, error) {
	return driver.DescribeByInfo(ctx, c, c.mode)
}

// Close implements [driver.Conn]. The application's pool stays open; of its
// connections only those are closed on which a call was in flight.
func (c *conn) Close() error {
	c.end()
	c.turns.Load() // so that they have been before the application closes the pool, also for the race detector
	c.underway.cutAll()
	c.close()
	return c.subscriptions.Close()
}
