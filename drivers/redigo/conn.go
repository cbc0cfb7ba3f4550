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
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

// A conn sends commands through a pool, which is its own or the application's.
type conn struct {
	pool     *redis.Pool
	dial     func(context.Context) (redis.Conn, error) // makes a connection like those of pool
	mode     driver.Mode
	patience time.Duration         // the longest wait for a connection of pool
	silence  time.Duration         // the longest wait for a reply
	own      bool                  // the pool is the driver's own: taking a connection ends as soon as ctx does
	quick    bool                  // if it is not: taking an idle connection does
	distrust func(since time.Time) // has idle connections dropped that were last used before since
	close    func()                // closes what was opened

	mu       sync.Mutex
	underway map[*call]struct{} // those that Close cuts
	calls    sync.Pool          // calls that nothing refers to any more

	severable     atomic.Bool  // pool's connections can be severed
	turns         atomic.Int64 // how often other goroutines have used pool, and are done with it
	subscriptions pubsub.Group
	life          context.Context // ends with Close
	end           context.CancelFunc
}

// Format implements [fmt.Formatter], so that no way of printing shows a password, or
// reads what calls are changing.
func (*conn) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "redigo.Conn") }

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
		quick:    pool.DialContext != nil && pool.TestOnBorrow == nil && pool.TestOnBorrowContext == nil, // which may do anything
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

// openAside has f make or take a connection in another goroutine. It returns early when ctx ends or c is closed.
func (c *conn) openAside(ctx context.Context, f func() (redis.Conn, error)) (redis.Conn, error) {
	return aside.Open(ctx, c.life.Done(), f, func(late redis.Conn) { _ = late.Close() })
}

func (c *conn) enter(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.underway[k] = struct{}{}
}

func (c *conn) leave(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.underway, k)
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
	c.turns.Load() // orders those turns before the application's closing of the pool, as the race detector sees it
	c.mu.Lock()
	for k := range c.underway {
		k.cut() // a later call sees that c is closed
	}
	c.mu.Unlock()
	c.close()
	return c.subscriptions.Close()
}
