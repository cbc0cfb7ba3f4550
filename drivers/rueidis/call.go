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

// A gate bounds how many calls are with rueidis at the same time, including those whose
// caller has given up. Without it calls would pile up on a server that
// hangs, at the rate of requests. In a Cluster each of 64 ranges of slots has a
// gate of its own, so that a server that hangs holds up no calls to the others.
type gate chan struct{}

const (
	maxInFlight = 1<<ringScale - 8 // leaves rueidis room for its PINGs
	gates       = 64
)

// A callContext is the context that rueidis sees of a call. It ends only with the
// Conn: rueidis may connect on behalf of a call, and a connection is of use to all calls, so
// it must not end with that one. And it has no deadline: rueidis would make that the
// connection's, and then not notice a cancellation any more. But
// Err, which rueidis asks before it queues a command, tells that the caller has
// left, so that nothing is sent late needlessly.
//
// Since Done is not nil and there is no deadline, rueidis always pipelines. Then
// a batch that breaks half-way keeps the replies it has. A single command has
// nothing to keep: its Done is nil, so that rueidis writes it and reads the reply
// without a turn through two other goroutines, as long as no other call is made.
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
	ctx      *callContext    // not used again: a dial may keep it
	commands []rue.Completed // of a batch, and its results
	results  []rue.RedisResult
	command  rue.Completed // of a call that is no batch, and its result
	result   rue.RedisResult
}

// calls are those that are over and that nothing refers to any more.
var calls = sync.Pool{New: func() any { return new(call) }}

func (k *call) recycle() {
	*k = call{}
	calls.Put(k)
}

// Run is called in another goroutine, and may go on after the caller has left.
func (k *call) Run() {
	defer func() { <-k.gate }()
	if k.ctx.batch {
		k.results = k.client.DoMulti(k.ctx, k.commands...)
	} else {
		k.result = k.client.Do(k.ctx, k.command)
	}
}

// make has rueidis make the call in another goroutine, and returns as soon as it is done, ctx ends,
// the Conn is closed or c.limit has passed. rueidis itself is not that prompt while it connects
// or looks for the master, and when its ring is full. After an error the call must not
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

// ended tells why a call did not wait any longer; what says for what it waited.
func (c *conn) ended(ctx context.Context, what string) error {
	err := ctx.Err()
	if c.life.Err() != nil {
		err = driver.ErrClosed
	} else if err == nil {
		err = fmt.Errorf("given up after %v: %w", c.limit, os.ErrDeadlineExceeded)
	}
	return fmt.Errorf("rueidis: %s: %w", what, err)
}
