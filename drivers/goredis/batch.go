package goredis

import (
	"context"
	"errors"
	"slices"

	"github.com/golocker/golocker/locker/driver"
)

// DoBatch implements [driver.Batcher].
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	if slices.ContainsFunc(cmds, func(cmd driver.Command) bool { return cmd.Name() == "" }) {
		return failed(len(cmds), driver.NotSent(errNoCommand))
	}
	if err := c.ready(ctx); err != nil {
		return failed(len(cmds), err)
	}
	if len(cmds) == 0 {
		return nil
	}
	e := c.newExchange(ctx, cmds...)
	if err := c.run(ctx, e); err != nil {
		return failed(len(cmds), err)
	}
	return c.results(ctx, e)
}

func failed(n int, err error) []driver.Result {
	return slices.Repeat([]driver.Result{{Err: err}}, n)
}

// results are those of a pipeline that was sent, one in a Cluster for each node. When a
// connection breaks, go-redis gives its error also to commands that have their reply:
// then these are of unknown outcome like those behind them.
//
// In a Cluster an error other than a reply proves nothing: when go-redis maps
// commands to nodes again, after a redirection or because it had no connection to
// a node, and then loses the connection to the new node, some commands keep their
// former error.
func (c *conn) results(ctx context.Context, e *exchange) []driver.Result {
	results := make([]driver.Result, len(e.commands))
	for i := range e.commands {
		rc := &e.commands[i]
		v, err := rc.result()
		if err == errUnasked && e.err != nil {
			// go-redis got no connection because of an error reply, to AUTH or from
			// a Sentinel, and believes that each command knows it as its own.
			err = e.err
		}
		if err == nil {
			results[i].Value = toValue(v)
			continue
		}
		reply, refused := serverError(err)
		if c.mode == driver.ModeCluster && (!refused || reply.Code == "MOVED" || reply.Code == "ASK") {
			results[i].Err = c.unknownFailure(ctx, err)
		} else {
			results[i].Err = c.commandFailure(ctx, rc, err)
		}
		if errors.Is(err, errNested) { // those behind it may have other replies than their own
			copy(results[i:], failed(len(results)-i, results[i].Err))
			break
		}
	}
	return results
}
