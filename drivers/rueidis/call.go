package rueidis

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// A gate bounds how many calls are with rueidis at the same time, those whose
// caller has given up included. Without it they would pile up on a server that
// hangs, at the rate of requests. A Cluster has a gate for each of as many
// ranges of slots, so that a server that hangs keeps nothing from the others.
type gate chan struct{}

const (
	maxInFlight = 1<<ringScale - 8 // leaves rueidis room for its PINGs
	gates       = 64
)

// A callContext is the ctx that rueidis sees of a call. It ends only with the
// Conn: rueidis may connect on behalf of a call, which is of use to all and is
// not to end with the one, and it would hold the connection's deadline to the
// call's if there were one, and then not hear of a cancellation any more. But
// Err, which rueidis asks before it queues a command, tells that the caller has
// gone, so that nothing is sent late that need not be.
//
// Since Done is not nil and there is no deadline, rueidis always pipelines. Then
// a batch that breaks half-way keeps the replies it has. A single command has
// nothing to keep: its Done is nil, so that rueidis writes it and reads the reply
// without a turn through two other goroutines, as long as nobody else is there.
type callContext struct {
	context.Context // the caller's
	life            context.Context
	batch           bool
}

func (c *callContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }
func (c *callContext) Err() error                              { return cmp.Or(c.life.Err(), c.Context.Err()) }

func (c *callContext) Done() <-chan struct{} {
	if c.batch {
		return c.life.Done()
	}
	return nil
}

// A call is what rueidis does for one call.
type call struct {
	client   rue.Client
	gate     gate
	ctx      *callContext    // not used again: who dials may keep it
	commands []rue.Completed // of a batch, and its results
	results  []rue.RedisResult
	command  rue.Completed // of another, and its result
	result   rue.RedisResult
}

// calls are those that are over, and that nobody knows any more.
var calls = sync.Pool{New: func() any { return new(call) }}

func (k *call) recycle() {
	*k = call{}
	calls.Put(k)
}

// Run is called aside, and perhaps alone.
func (k *call) Run() {
	defer func() { <-k.gate }()
	if k.ctx.batch {
		k.results = k.client.DoMulti(k.ctx, k.commands...)
	} else {
		k.result = k.client.Do(k.ctx, k.command)
	}
}

// make has rueidis make the call aside, and returns as soon as ctx ends, the Conn is
// closed or c.limit has passed. rueidis itself is not that prompt: not while it connects
// or looks for the master, and not when its ring is full. After an error the call must not
// be touched any more.
func (c *conn) make(ctx context.Context, g gate, k *call) error {
	limited := ctx
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > c.limit {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, c.limit)
		defer cancel()
	}
	select {
	case g <- struct{}{}:
	default:
		select {
		case g <- struct{}{}:
		case <-limited.Done():
			return driver.NotSent(c.ended(ctx, "too many calls in flight"))
		case <-c.life.Done():
			return driver.NotSent(c.ended(ctx, "too many calls in flight"))
		}
	}
	k.client, k.gate, k.ctx = c.client, g, &callContext{limited, c.life, k.commands != nil}
	if c.crew.Call(limited, c.life.Done(), k) != nil {
		return c.ended(ctx, "no reply")
	}
	return nil
}

// ended says why a call did not wait any longer, and what it waited for.
func (c *conn) ended(ctx context.Context, what string) error {
	err := ctx.Err()
	if c.life.Err() != nil {
		err = driver.ErrClosed
	} else if err == nil {
		err = fmt.Errorf("given up after %v: %w", c.limit, os.ErrDeadlineExceeded)
	}
	return fmt.Errorf("rueidis: %s: %w", what, err)
}
