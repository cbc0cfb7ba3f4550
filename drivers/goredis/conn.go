package goredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/golocker/golocker/locker/driver"
)

var (
	_ driver.Conn       = (*conn)(nil)
	_ driver.Batcher    = (*conn)(nil)
	_ driver.Subscriber = (*conn)(nil)
	_ driver.Describer  = (*conn)(nil)
)

var errNoCommand = errors.New("goredis: a command without a name")

// A conn is a go-redis client, wrapped or its own.
type conn struct {
	client      redis.UniversalClient
	closeClient func() error // nil if the client is the application's
	mode        driver.Mode

	life context.Context // ends with Close
	end  context.CancelFunc

	closing       sync.Once
	mu            sync.Mutex
	subscriptions map[*subscription]struct{}
}

func newConn(mode driver.Mode) *conn {
	c := &conn{mode: mode, subscriptions: make(map[*subscription]struct{})}
	c.life, c.end = context.WithCancel(context.Background())
	return c
}

// Do implements [driver.Conn].
func (c *conn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if len(cmd.Args) == 0 {
		return nil, driver.NotSent(errNoCommand)
	}
	rc := newCommand(ctx, cmd)
	if err := c.run(ctx, func() { _ = c.client.Process(ctx, rc) }); err != nil {
		return nil, err
	}
	v, err := rc.result()
	if err != nil && err != redis.Nil {
		return nil, c.failure(ctx, err)
	}
	return toValue(v), nil
}

// run calls f, unless the Conn is closed or ctx has ended, and returns when f
// does, or as soon as the Conn is closed or ctx ends. Then f goes on alone, and
// what it works on must not be touched: go-redis heeds no cancellation once it
// has a connection, and no deadline unless it is told to.
func (c *conn) run(ctx context.Context, f func()) error {
	if err := c.ready(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	case <-c.life.Done():
	}
	select {
	case <-done: // at the same moment: a known outcome is worth more
		return nil
	default:
		return c.interrupted(ctx)
	}
}

// ready returns an error if the Conn is closed or ctx has ended.
func (c *conn) ready(ctx context.Context) error {
	if c.life.Err() != nil {
		return driver.NotSent(fmt.Errorf("goredis: %w", driver.ErrClosed))
	}
	if err := ctx.Err(); err != nil {
		return driver.NotSent(fmt.Errorf("goredis: %w", err))
	}
	return nil
}

// interrupted is the error of what Close or the end of ctx has interrupted.
func (c *conn) interrupted(ctx context.Context) error {
	if c.life.Err() != nil {
		return fmt.Errorf("goredis: no reply yet: %w", driver.ErrClosed)
	}
	return fmt.Errorf("goredis: no reply yet: %w", ctx.Err())
}

// Describe implements [driver.Describer].
func (c *conn) Describe(ctx context.Context) (driver.Topology, error) {
	topology := driver.Topology{Mode: c.mode}
	if c.mode == driver.ModeCluster {
		return topology, c.ready(ctx)
	}
	info, err := c.Do(ctx, driver.Command{Args: []string{"INFO", "server"}})
	if driver.OutcomeOf(err) == driver.OutcomeReplied {
		return topology, nil
	}
	text, _ := info.(string)
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			topology.RunID = strings.TrimSpace(id)
		}
	}
	return topology, err
}

// Close implements [driver.Conn].
func (c *conn) Close() error {
	var err error
	c.closing.Do(func() {
		c.end()
		if c.closeClient != nil {
			err = c.closeClient()
		}
		c.mu.Lock()
		subscriptions := c.subscriptions
		c.subscriptions = nil
		c.mu.Unlock()
		for s := range subscriptions {
			err = errors.Join(err, s.Subscription.Close())
		}
	})
	return err
}
