package customdriver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

const defaultPoolSize = 16

// A pool holds the connections to one server. It never sends a command twice:
// what failed is the caller's to judge.
type pool struct {
	// dial hides the Config, whose password %+v would show from a field that
	// is not exported.
	dial    func(context.Context) (*conn, error)
	timeout time.Duration // how long to wait for a free connection

	slots  chan struct{} // holds a token for each connection in use
	closed context.Context
	cancel context.CancelFunc // ends closed

	mu   sync.Mutex
	idle []*conn // the last used is the last
}

func newPool(cfg driver.Config) *pool {
	p := &pool{
		dial:    func(ctx context.Context) (*conn, error) { return dial(ctx, cfg) },
		timeout: cfg.Timeout,
		slots:   make(chan struct{}, cmp.Or(cfg.PoolSize, defaultPoolSize)),
	}
	p.closed, p.cancel = context.WithCancel(context.Background())
	return p
}

// do sends cmds on one connection.
func (p *pool) do(ctx context.Context, cmds []driver.Command) []driver.Result {
	results := make([]driver.Result, len(cmds))
	for _, cmd := range cmds {
		if cmd.Name() == "" {
			return fail(results, driver.NotSent(errors.New("customdriver: a command without a name")))
		}
	}
	if p.over(ctx) {
		return fail(results, driver.NotSent(p.reason(ctx, errOver)))
	}
	// call ends with ctx and with Close. It has no deadline of its own: a
	// net.Dialer would end by that a moment before ctx does, with an error
	// that does not match the ctx's.
	call, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	defer context.AfterFunc(p.closed, cancel)()

	c, err := p.get(call)
	if err == nil && p.over(ctx) {
		p.put(c)
		err = errOver
	}
	if err != nil {
		return fail(results, driver.NotSent(p.reason(ctx, err))) // nothing was written
	}
	replies, err := c.exchange(call, cmds)
	for i, reply := range replies {
		refusal, ok := reply.(*driver.ServerError)
		if !ok {
			results[i].Value = reply
			continue
		}
		results[i].Err = refusal
		if refusal.Code == "READONLY" {
			c.spent = true // the name of the master may lead elsewhere by now
		}
	}
	p.put(c)
	if err != nil {
		fail(results[len(replies):], p.reason(ctx, err)) // unmarked: unknown
	}
	return results
}

func fail(results []driver.Result, err error) []driver.Result {
	for i := range results {
		results[i].Err = err
	}
	return results
}

// errOver stands for the reason that reason finds.
var errOver = errors.New("the call is over")

// over reports whether a call has ended before anything was written.
func (p *pool) over(ctx context.Context) bool {
	return ctx.Err() != nil || p.closed.Err() != nil
}

// reason says why a call failed: a connection that was interrupted only knows
// of a deadline.
func (p *pool) reason(ctx context.Context, err error) error {
	switch {
	case p.closed.Err() != nil:
		err = driver.ErrClosed
	case ctx.Err() != nil:
		err = ctx.Err()
	}
	return fmt.Errorf("customdriver: %w", err)
}

// get returns a connection that is alive as far as anybody can know, an idle
// one if there is one. The caller must put it back.
func (p *pool) get(ctx context.Context) (*conn, error) {
	if err := p.acquire(ctx); err != nil {
		return nil, err
	}
	for c := p.pop(); c != nil; c = p.pop() {
		if c.wake() {
			return c, nil
		}
	}
	c, err := p.dial(ctx)
	if err != nil {
		<-p.slots
	}
	return c, err
}

func (p *pool) acquire(ctx context.Context) error {
	timer := time.NewTimer(p.timeout)
	defer timer.Stop()
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return fmt.Errorf("all %d connections are in use for %v (raise the pool size)", cap(p.slots), p.timeout)
	}
}

func (p *pool) pop() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.idle)
	if n == 0 {
		return nil
	}
	c := p.idle[n-1]
	p.idle = p.idle[:n-1]
	return c
}

// put takes back a connection from get, and closes it where a call was abandoned
// on it: its reply may still come, and would answer the next command.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.spent || p.closed.Err() != nil {
		c.close()
	} else {
		c.watch()
		p.idle = append(p.idle, c)
	}
	<-p.slots
}

// close closes every connection and makes the calls in flight return.
func (p *pool) close() {
	p.cancel()
	for c := p.pop(); c != nil; c = p.pop() {
		c.close()
		<-c.alive
	}
}
