package redigo

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	suspect  func()        // has other idle connections dropped, after one broke
	close    func()        // closes what was opened

	severable     atomic.Bool // pool's connections can be severed
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
		return nil, errors.New("redigo: Wrap was given a nil *redis.Pool, or one without Dial and DialContext")
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
		suspect:  func() {},
		close:    func() {},
	}, nil
}

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	l, err := c.borrow(ctx, cmd)
	if err != nil {
		return nil, driver.NotSent(err)
	}
	defer l.giveBack()
	result, _ := l.result(l.Do(cmd.Args[0], arguments(cmd.Args)...))
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
	fail := func(from int, err error) []driver.Result {
		for i := from; i < len(results); i++ {
			results[i].Err = err
		}
		return results
	}
	l, err := c.borrow(ctx, cmds...)
	if err != nil {
		return fail(0, driver.NotSent(err))
	}
	defer l.giveBack()

	begun := 0 // commands of which something may have been written
	var writer sync.WaitGroup
	writer.Go(func() {
		for _, cmd := range cmds {
			begun++
			if l.Send(cmd.Args[0], arguments(cmd.Args)...) != nil {
				return
			}
		}
		_ = l.Flush() // if it fails, so does Receive
	})
	for i := range cmds {
		var broken bool
		if results[i], broken = l.result(l.Receive()); broken {
			sever(l.Conn)
			writer.Wait()
			fail(i+1, results[i].Err)
			return fail(max(i, begun), driver.NotSent(results[i].Err))
		}
	}
	writer.Wait()
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
	c.close()
	return c.subscriptions.Close()
}
