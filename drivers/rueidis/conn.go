package rueidis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	rue "github.com/redis/rueidis"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/aside"
	"github.com/golocker/golocker/locker/driver/netdial"
	"github.com/golocker/golocker/locker/driver/pubsub"
)

var (
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)

// errDecorator tells of results that are not rueidis' own. The command may have been sent all the same.
var errDecorator = errors.New("rueidis: a decorator of the client has returned other results than the server's replies")

type conn struct {
	client    rue.Client
	decorated bool            // client is not rueidis' own, see isDecorated
	dialer    *netdial.Dialer // nil for a wrapped client
	limit     time.Duration   // of a call, see call
	gates     [gates]gate     // the first one, or in a Cluster one for each part of its slots
	crew      aside.Crew      // makes the calls
	dedicator dedicator       // takes the connections of subs
	subs      pubsub.Group
	left      atomic.Pointer[time.Time] // when a demoted server was left last, see leave
	life      context.Context           // ends with Close
	end       context.CancelFunc
}

func newConn(client rue.Client, dialer *netdial.Dialer, limit time.Duration) *conn {
	c := &conn{client: client, decorated: isDecorated(client), dialer: dialer, limit: limit, dedicator: newDedicator()}
	for i := range c.gates {
		c.gates[i] = make(gate, maxInFlight)
	}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	completed, gate, err := c.build(ctx, cmd)
	if err != nil {
		return nil, err
	}
	k := calls.Get().(*call)
	k.command = completed
	if err := c.make(ctx, gate, k); err != nil {
		return nil, err
	}
	defer k.recycle()
	return c.outcome(ctx, cmd, &k.result)
}

// DoBatch implements [driver.Batcher]: one pipeline for each group of commands
// that has a gate of its own.
func (c *conn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	pipelines := map[gate]*pipeline{}
	for i, cmd := range cmds {
		completed, gate, err := c.build(ctx, cmd)
		if err != nil {
			results[i].Err = err
			continue
		}
		p := pipelines[gate]
		if p == nil {
			p = &pipeline{make([]rue.Completed, 0, len(cmds)-i), make([]int, 0, len(cmds)-i)}
			pipelines[gate] = p
		}
		p.commands, p.places = append(p.commands, completed), append(p.places, i)
	}
	var wg sync.WaitGroup
	for gate, p := range pipelines {
		if len(pipelines) == 1 {
			p.send(ctx, c, gate, cmds, results)
			break
		}
		wg.Go(func() { p.send(ctx, c, gate, cmds, results) })
	}
	wg.Wait()
	return results
}

// A pipeline is the part of a batch that has a gate of its own.
type pipeline struct {
	commands []rue.Completed
	places   []int // of them in the batch
}

func (p *pipeline) send(ctx context.Context, c *conn, g gate, cmds []driver.Command, results []driver.Result) {
	k := calls.Get().(*call)
	k.commands = p.commands
	err := c.make(ctx, g, k)
	if err == nil && len(k.results) != len(p.places) { // which result is whose?
		err = fmt.Errorf("%w: %d of a pipeline of %d commands", errDecorator, len(k.results), len(p.places))
	}
	for i, place := range p.places {
		r := &results[place]
		if r.Err = err; err == nil {
			r.Value, r.Err = c.outcome(ctx, cmds[place], &k.results[i])
		}
	}
	if err == nil {
		k.recycle()
	}
}

// ready returns an error if a call with ctx has nothing to begin.
func (c *conn) ready(ctx context.Context) error {
	if c.life.Err() != nil || ctx.Err() != nil {
		return driver.NotSent(c.ended(ctx, "not sent"))
	}
	return nil
}

// build makes a command for the client from cmd, which in a Cluster goes where its
// keys are, and returns the gate for it. It refuses
// everything that makes rueidis panic. Its errors are marked not sent. For
// keys in different slots the error is also the [driver.ServerError] that a server would
// give.
//
// The command is neither retryable nor read-only, so that rueidis never sends it
// again, whatever the options of a wrapped client.
func (c *conn) build(ctx context.Context, cmd driver.Command) (rue.Completed, gate, error) {
	fail := func(err error) (rue.Completed, gate, error) {
		return rue.Completed{}, nil, driver.NotSent(err)
	}
	err := c.ready(ctx)
	switch {
	case err != nil:
		return fail(err)
	case cmd.Name() == "":
		return fail(errors.New("rueidis: a command without a name"))
	case strings.HasSuffix(strings.ToUpper(cmd.Name()), "SUBSCRIBE"):
		return fail(fmt.Errorf("rueidis: %s through Do (use Subscribe): %w", cmd.Name(), driver.ErrUnsupported))
	case cmd.FirstKey < 0 || cmd.NumKeys < 0 || cmd.NumKeys > len(cmd.Args)-cmd.FirstKey:
		return fail(fmt.Errorf("rueidis: %v has no %d keys from argument %d", cmd, cmd.NumKeys, cmd.FirstKey))
	}
	// Pipelined even where the client does not by itself, see callContext.
	completed := c.client.B().Arbitrary(cmd.Args...).Build().ToPipe()
	if c.client.Mode() != rue.ClientModeCluster {
		return completed, c.gates[0], nil
	}
	key := ""
	if cmd.NumKeys == 0 { // it goes to any master: rueidis would choose among the replicas, too
		key = strconv.Itoa(rand.IntN(driver.Slots))
	}
	for i, k := range cmd.Keys() {
		if i > 0 && driver.Slot(k) != driver.Slot(key) {
			return fail(driver.NewServerError("CROSSSLOT Keys in request don't hash to the same slot"))
		}
		key = k
	}
	return completed.SetSlot(key), c.gates[driver.Slot(key)*gates/driver.Slots], nil
}

// outcome is what Do returns for the result of cmd.
func (c *conn) outcome(ctx context.Context, cmd driver.Command, result *rue.RedisResult) (driver.Value, error) {
	v, err := c.reply(ctx, result)
	if reply, ok := errors.AsType[*driver.ServerError](err); ok && reply.Code == "READONLY" {
		c.leave(ctx, cmd)
	}
	return v, err
}

func (c *conn) reply(ctx context.Context, result *rue.RedisResult) (driver.Value, error) {
	if err := result.NonRedisError(); err != nil {
		if reply, ok := errors.AsType[*rue.RedisError](err); ok && c.decorated {
			return decoratedReply(reply)
		}
		return nil, c.failure(ctx, err)
	}
	message, _ := result.ToMessage()
	if message == (rue.RedisMessage{}) { // which no reply is
		return nil, fmt.Errorf("%w: an empty one", errDecorator)
	}
	return value(&message)
}

// failure makes an error of the contract from one that is no reply. The outcome is
// unknown, except where this package has opened the connections and knows
// that nothing is ever sent twice: then a failed dial, which rueidis reports only to
// commands that had no connection, is how the only attempt ended. A
// wrapped client may try again by itself, so there it proves nothing. An error reply
// here does not answer the command, but what sets a connection up, and nothing is tried
// again after that; unless a decorator made it.
//
// rue.ErrClosing does not become driver.ErrClosed, since it is not final: in a
// Cluster or with Sentinels it means that the client has left one server.
func (c *conn) failure(ctx context.Context, err error) error {
	err = refused(err)
	_, undialed := errors.AsType[*netdial.Error](err)
	_, unwanted := errors.AsType[*driver.ServerError](err)
	unsent := unwanted && !c.decorated || undialed && c.dialer != nil
	err = c.dialer.Redact(err)
	if c.life.Err() != nil {
		err = fmt.Errorf("rueidis: %w (%v)", driver.ErrClosed, err)
	} else {
		err = fmt.Errorf("rueidis: %w", ownEnd(ctx, err))
	}
	if unsent {
		return driver.NotSent(err)
	}
	return err
}

// ownEnd returns err such that it matches the errors of package context only if ctx has ended.
// A handshake that takes too long, or a call of the application that is cancelled
// while it connects, ends with such an error too.
func ownEnd(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return fmt.Errorf("no connection: %v", err)
	}
	return err
}

// Describe implements [driver.Describer].
func (c *conn) Describe(ctx context.Context) (driver.Topology, error) {
	mode := driver.ModeSingle
	switch c.client.Mode() {
	case rue.ClientModeCluster:
		mode = driver.ModeCluster
	case rue.ClientModeSentinel:
		mode = driver.ModeSentinel
	}
	if err := c.ready(ctx); err != nil {
		return driver.Topology{Mode: mode}, err
	}
	return driver.DescribeByInfo(ctx, c, mode)
}

// Subscribe implements [driver.Subscriber]. The first Add opens the connection.
func (c *conn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	return c.subs.Subscribe(ctx, c.dialChannels)
}

// Close implements [driver.Conn]. Calls in flight return at once. rueidis waits for nothing
// then, since the connections are closed before the client is.
func (c *conn) Close() error {
	c.end()
	c.crew.Close()
	if c.dialer == nil {
		return c.subs.Close()
	}
	c.dialer.Close()
	err := c.subs.Close()
	c.client.Close()
	return err
}
