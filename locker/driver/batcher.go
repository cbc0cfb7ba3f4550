package driver

import (
	"context"
	"fmt"
	"slices"
)

// A Batcher is a Conn that can send several commands with fewer round trips
// than one each, usually as a pipeline.
//
// The core sends the commands of concurrent callers together through it, up to 256 in a batch
// and a few batches at a time. Each caller waits under its own ctx; the ctx of the batch ends
// when no caller waits any more.
//
// Without it each command is sent by Do, and commands that belong together by [DoBatch], one
// after another.
//
// A Conn that can only send one command after another should not be a Batcher: the callers
// that share a batch would wait for one another.
type Batcher interface {
	// DoBatch sends all commands, each at most once, and returns one Result for each, in their
	// order. Commands whose keys share a slot are executed in the order given. Outside a
	// Cluster all commands are; in a Cluster, commands whose keys do not share a slot may overtake
	// one another. A failure is reported for each command by itself and never by panicking or
	// by returning fewer results, and an error reply belongs to its own command only. When a
	// connection breaks half-way, all commands without a reply are unknown (or not sent, where
	// that is certain); those before them may have their replies, or be unknown where the
	// client does not keep the replies. The core asks again about each. DoBatch is as prompt as
	// Do when ctx ends. The results are the caller's: replies that come later change nothing in
	// them.
	DoBatch(ctx context.Context, cmds []Command) []Result
}

// A Result is what Do would have returned for one command of a batch.
type Result struct {
	Value Value // the reply, where Err is nil
	Err   error // tells the outcome of this command, see [OutcomeOf]
}

// DoBatch sends cmds through c's DoBatch if c is a [Batcher], otherwise one after another
// through Do. It always returns len(cmds) results: where a Batcher returns another number,
// which result belongs to which command is anybody's guess, and all are unknown.
func DoBatch(ctx context.Context, c Conn, cmds []Command) []Result {
	if len(cmds) == 0 {
		return nil
	}
	if b, ok := c.(Batcher); ok {
		results := b.DoBatch(ctx, cmds)
		if len(results) != len(cmds) {
			err := fmt.Errorf("driver: DoBatch of %T returned %d results for %d commands", c, len(results), len(cmds))
			return slices.Repeat([]Result{{Err: err}}, len(cmds))
		}
		return results
	}
	results := make([]Result, len(cmds))
	for i, cmd := range cmds {
		results[i].Value, results[i].Err = c.Do(ctx, cmd)
	}
	return results
}
