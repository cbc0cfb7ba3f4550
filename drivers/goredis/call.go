package goredis

import (
	"context"
	"errors"
	"fmt"

	"github.com/golocker/golocker/locker/driver"
)

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	var result [1]driver.Result
	c.call(ctx, []driver.Command{cmd}, result[:])
	return result[0].Value, result[0].Err
}

// DoBatch implements [driver.Batcher].
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	c.call(ctx, cmds, results)
	return results
}

// call makes one call of cmds, and sets their results.
func (c *conn) call(ctx context.Context, cmds []driver.Command, results []driver.Result) {
	e, err := c.exchange(ctx, cmds)
	for i := range results {
		if err != nil { // of all, or of those from one on
			results[i].Err = err
			continue
		}
		rc := &e.commands[i]
		v, failure := rc.result()
		if failure == errUnasked && e.err != nil {
			// go-redis got no connection because of an error reply, to AUTH or from
			// a Sentinel, and believes that each command knows it as its own.
			failure = e.err
		}
		if failure == nil {
			results[i].Value = toValue(v)
			continue
		}
		results[i].Err = c.commandFailure(ctx, e, rc, failure)
		if errors.Is(failure, errNested) { // those behind it may have other replies than their own
			err = results[i].Err
		}
	}
}

// exchange has go-redis make a call. It returns when that is done, or as soon as the Conn is
// closed or ctx ends. Then go-redis goes on alone: it heeds no cancellation once it has a connection, and
// no deadline unless it is told to.
func (c *conn) exchange(ctx context.Context, cmds []driver.Command) (*exchange, error) {
	for _, cmd := range cmds {
		if cmd.Name() == "" {
			return nil, driver.NotSent(errors.New("goredis: a command without a name"))
		}
	}
	if err := c.ready(ctx); err != nil || len(cmds) == 0 {
		return nil, err
	}
	e := c.newExchange(ctx, cmds)
	if err := c.crew.Call(ctx, c.life.Done(), e); err != nil {
		c.nodes.ask(c.life)
		return nil, fmt.Errorf("goredis: no reply yet: %w", err)
	}
	return e, nil
}
