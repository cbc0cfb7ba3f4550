package rueidis

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
)

// A gate bounds how many calls are with rueidis at the same time, those whose
// caller has given up included. Without it they would pile up on a server that
// hangs, at the rate of requests. A Cluster has a gate for each of clusterGates
// ranges of slots, so that a server that hangs keeps nothing from the others.
type gate chan struct{}

const (
	maxInFlight  = 1<<ringScale - 8 // leaves rueidis room for its PINGs
	clusterGates = 64
)

// A callContext is the ctx that rueidis sees of a call. It ends only with the
// Conn: rueidis may connect on behalf of a call, which is of use to all and is
// not to end with the one, and it would hold the connection's deadline to the
// call's if there were one, and then not hear of a cancellation any more. But
// Err, which rueidis asks before it queues a command, tells that the caller has
// gone, so that nothing is sent late that need not be.
//
// Since Done is not nil and there is no deadline, rueidis always pipelines. Then
// a batch that breaks half-way keeps the replies it has.
type callContext struct {
	context.Context
	done <-chan struct{}
}

func (c callContext) Deadline() (deadline time.Time, ok bool) { return time.Time{}, false }

func (c callContext) Done() <-chan struct{} { return c.done }

func (c callContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return c.Context.Err()
	}
}

// call runs f, which calls rueidis, aside, and returns as soon as ctx ends, the
// Conn is closed or c.limit has passed. rueidis itself is not that prompt: not
// while it connects or looks for the master, and not when its ring is full.
func call[T any](ctx context.Context, c *conn, g gate, f func(context.Context) T) (T, error) {
	limited, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	var none T
	select {
	case g <- struct{}{}:
	case <-limited.Done():
		return none, driver.NotSent(c.ended(ctx, "too many calls in flight"))
	case <-c.done:
		return none, driver.NotSent(c.ended(ctx, "too many calls in flight"))
	}
	result := make(chan T, 1)
	go func() {
		defer func() { <-g }()
		result <- f(callContext{limited, c.done})
	}()
	select {
	case r := <-result:
		return r, nil
	case <-limited.Done():
	case <-c.done:
	}
	select {
	case r := <-result: // it came at the same moment
		return r, nil
	default:
		return none, c.ended(ctx, "no reply")
	}
}

// ended says why a call did not wait any longer, and what it waited for.
func (c *conn) ended(ctx context.Context, what string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("rueidis: %s: %w", what, err)
	}
	if c.isClosed() {
		return fmt.Errorf("rueidis: %s: %w", what, driver.ErrClosed)
	}
	return fmt.Errorf("rueidis: %s for %v: %w", what, c.limit, os.ErrDeadlineExceeded)
}

// anyKey returns a key in a random slot, to send a command without keys to a
// random master of a Cluster: rueidis would choose among the replicas too.
func (c *conn) anyKey() string {
	if !c.isCluster() {
		return ""
	}
	return strconv.Itoa(rand.IntN(driver.Slots))
}

// build makes cmd a command for the client, which in a Cluster goes where its
// keys are, or keyless is if it has none, and returns the gate for it. It avoids
// everything that makes rueidis panic. Its errors are marked not sent; that of
// keys in different slots is also the [driver.ServerError] that a server would
// give.
//
// The command is neither retryable nor read-only, so that rueidis never sends it
// again, whatever the options of a wrapped client.
func (c *conn) build(cmd driver.Command, keyless string) (rue.Completed, gate, error) {
	fail := func(err error) (rue.Completed, gate, error) {
		return rue.Completed{}, nil, driver.NotSent(err)
	}
	switch {
	case cmd.Name() == "":
		return fail(fmt.Errorf("rueidis: a command without a name"))
	case strings.HasSuffix(strings.ToUpper(cmd.Name()), "SUBSCRIBE"):
		return fail(fmt.Errorf("rueidis: %s through Do (use Subscribe): %w", cmd.Name(), driver.ErrUnsupported))
	case cmd.FirstKey < 0 || cmd.NumKeys < 0 || cmd.NumKeys > len(cmd.Args)-cmd.FirstKey:
		return fail(fmt.Errorf("rueidis: %v has no %d keys from argument %d", cmd, cmd.NumKeys, cmd.FirstKey))
	}
	// Pipelined even where the client does not by itself, see callContext.
	completed := c.client.B().Arbitrary(cmd.Args...).Build().ToPipe()
	if !c.isCluster() {
		return completed, c.gates[0], nil
	}
	key := keyless
	if keys := cmd.Keys(); len(keys) > 0 {
		key = keys[0]
		for _, other := range keys[1:] {
			if driver.Slot(other) != driver.Slot(key) {
				return fail(driver.NewServerError("CROSSSLOT Keys in request don't hash to the same slot"))
			}
		}
	}
	part := driver.Slot(key) * len(c.gates) / driver.Slots
	return completed.SetSlot(key), c.gates[part], nil
}
