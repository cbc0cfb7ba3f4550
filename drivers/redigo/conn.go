package redigo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/golocker/golocker/locker/driver"
)

// A conn sends commands through a pool, which is its own or the application's.
type conn struct {
	pool     *redis.Pool
	opener   *opener       // makes pool's connections; nil when pool is the application's
	patience time.Duration // the longest wait for a connection of pool
	capable  atomic.Bool   // the application's connections can be severed

	life context.Context // ends with Close
	end  context.CancelFunc

	mu            sync.Mutex
	links         map[*link]struct{} // in use
	subscriptions map[*subscription]struct{}
}

// String keeps package fmt from printing passwords.
func (c *conn) String() string { return "redigo.Conn" }

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if len(cmd.Args) == 0 {
		return nil, driver.NotSent(errNoName)
	}
	l, err := c.borrow(ctx)
	if err != nil {
		return nil, driver.NotSent(err)
	}
	defer c.giveBack(l)
	defer c.guard(ctx, l)()
	reply, err := l.Do(cmd.Args[0], arguments(cmd.Args)...)
	result, _ := c.result(ctx, l, reply, err)
	return result.Value, result.Err
}

// DoBatch implements [driver.Batcher]: one pipeline on one connection, read
// while it is written, because a server may stop reading while nobody takes its
// replies.
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	fail := func(from int, err error) []driver.Result {
		for i := from; i < len(results); i++ {
			results[i].Err = err
		}
		return results
	}
	if slices.ContainsFunc(cmds, func(cmd driver.Command) bool { return len(cmd.Args) == 0 }) {
		return fail(0, driver.NotSent(errNoName))
	}
	if len(cmds) == 0 {
		return results
	}
	l, err := c.borrow(ctx)
	if err != nil {
		return fail(0, driver.NotSent(err))
	}
	defer c.giveBack(l)
	defer c.guard(ctx, l)()

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
		reply, err := l.Receive()
		results[i], broken = c.result(ctx, l, reply, err)
		if broken {
			l.sever(err)
			writer.Wait()
			fail(i+1, results[i].Err)
			return fail(max(i, begun), driver.NotSent(results[i].Err))
		}
	}
	writer.Wait()
	return results
}

// result makes a Result of what redigo returned, and reports whether the
// connection is of no more use because of it.
func (c *conn) result(ctx context.Context, l *link, reply any, err error) (driver.Result, bool) {
	if err == nil {
		return driver.Result{Value: value(reply)}, false
	}
	if answer, ok := errors.AsType[redis.Error](err); ok {
		if demoted(string(answer)) { // have the new master found
			l.demoted = true
			c.suspect()
		}
		return driver.Result{Err: driver.NewServerError(string(answer))}, false
	}
	reason := l.reason()
	if reason == nil && ended(ctx) == nil {
		c.suspect()
	}
	return driver.Result{Err: lost(ctx, reason, err)}, true
}

func (c *conn) suspect() {
	if c.opener != nil {
		c.opener.suspect()
	}
}

// Describe implements [driver.Describer]. The application's pool counts as
// [driver.ModeSingle], whatever its Dial function does.
func (c *conn) Describe(ctx context.Context) (driver.Topology, error) {
	var topology driver.Topology
	if c.opener != nil {
		topology.Mode = c.opener.cfg.Mode
	}
	reply, err := c.Do(ctx, driver.Command{Args: []string{"INFO", "server"}})
	if err != nil && driver.OutcomeOf(err) != driver.OutcomeReplied {
		return topology, err
	}
	text, _ := reply.(string)
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			topology.RunID = strings.TrimSpace(id)
		}
	}
	return topology, nil
}

// Close implements [driver.Conn]. The application's pool stays open; of its
// connections only those are closed on which a call was in flight.
func (c *conn) Close() error {
	c.mu.Lock()
	if c.life.Err() != nil {
		c.mu.Unlock()
		return nil
	}
	c.end()
	links := slices.Collect(maps.Keys(c.links))
	subscriptions := slices.Collect(maps.Keys(c.subscriptions))
	c.mu.Unlock()

	for _, l := range links {
		l.sever(driver.ErrClosed)
	}
	var err error
	if c.opener != nil {
		err = c.pool.Close()
	}
	for _, s := range subscriptions {
		_ = s.Close() // a broken connection is as closed as any
	}
	return err
}
