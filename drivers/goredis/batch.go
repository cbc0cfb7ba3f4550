package goredis

import (
	"context"
	"errors"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
)

// DoBatch implements [driver.Batcher].
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	rcs := make([]command, len(cmds))
	pipe := c.client.Pipeline()
	for i, cmd := range cmds {
		if len(cmd.Args) == 0 {
			return failed(len(cmds), driver.NotSent(errNoCommand))
		}
		rcs[i] = newCommand(ctx, cmd)
		_ = pipe.Process(ctx, rcs[i]) // puts it into the pipeline
	}
	var execErr error
	if err := c.run(ctx, func() { _, execErr = pipe.Exec(ctx) }); err != nil {
		return failed(len(cmds), err)
	}
	if execErr != nil && !slices.ContainsFunc(rcs, func(rc command) bool { return rc.Err() != nil }) {
		// go-redis got no connection because of an error reply, to AUTH or from
		// a Sentinel, and believes that each command knows it as its own.
		return failed(len(cmds), c.failure(ctx, execErr))
	}
	results := c.pipelineResults
	if c.mode == driver.ModeCluster {
		results = c.clusterResults
	}
	return distrustBehindNested(results(ctx, rcs))
}

// distrustBehindNested puts errors in the place of results that may have been
// made of other replies than their own.
func distrustBehindNested(results []driver.Result) []driver.Result {
	isNested := func(r driver.Result) bool { return errors.Is(r.Err, errNested) }
	if i := slices.IndexFunc(results, isNested); i >= 0 {
		copy(results[i:], failed(len(results)-i, results[i].Err))
	}
	return results
}

func failed(n int, err error) []driver.Result {
	return slices.Repeat([]driver.Result{{Err: err}}, n)
}

// pipelineResults are those of a pipeline on one connection. When it breaks,
// go-redis gives its error to all commands, also to those that have their reply.
func (c *conn) pipelineResults(ctx context.Context, rcs []command) []driver.Result {
	results := make([]driver.Result, len(rcs))
	later := false // whether a later command has its reply
	for i, rc := range slices.Backward(rcs) {
		v, err := rc.result()
		_, refused := serverError(err)
		if err == nil || err == redis.Nil || v != nil && (later || isWhole(v)) {
			results[i].Value = toValue(v)
			later = true
			continue
		}
		results[i].Err = c.failure(ctx, err)
		later = later || refused
	}
	return results
}

// isWhole reports whether v, the value of a command with an error, is certainly
// a whole reply. What go-redis could not read to its end leaves a zero value.
func isWhole(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case int64:
		return v != 0
	case []any:
		return v != nil
	default:
		return false
	}
}

// clusterResults are those of a pipeline for each of several nodes. When
// go-redis maps commands to nodes again, after a redirection or because it had no
// connection to a node, and then loses the connection to the new node, some
// commands keep their former error. Such errors prove nothing.
func (c *conn) clusterResults(ctx context.Context, rcs []command) []driver.Result {
	results := make([]driver.Result, len(rcs))
	for i, rc := range rcs {
		v, err := rc.result()
		reply, refused := serverError(err)
		switch {
		case err == nil || err == redis.Nil:
			results[i].Value = toValue(v)
		case refused && reply.Code != "MOVED" && reply.Code != "ASK":
			results[i].Err = reply
		default:
			results[i].Err = c.unknownFailure(ctx, err)
		}
	}
	return results
}
