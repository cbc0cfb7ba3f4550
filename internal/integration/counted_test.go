package integration_test

import (
	"context"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A countedClient counts the requests that it makes about each lock. That tells who is woken
// from who polls on a machine of any speed: who is woken makes none.
type countedClient struct {
	*locker.Client
	requests *tally
}

func newCountedClient(t *testing.T, connector driver.Connector, opts ...locker.ClientOption) countedClient {
	t.Helper()
	requests := &tally{byKey: map[string]int{}}
	return countedClient{newClient(t, countedConnector{connector, requests}, opts...), requests}
}

// requireWoken lets the client wait for a lock that is held, and returns its lease. It has
// been told of the release. There are several tries: on a busy machine it may be time to poll
// just then, and the nodes of a Cluster that have just met may lose messages (Valkey 8.0 closes
// a link whose first message is a published one).
func (c countedClient) requireWoken(t *testing.T, m *locker.Mutex, hold func() *locker.Lease, meanwhile func(held *locker.Lease)) *locker.Lease {
	t.Helper()
	for range 10 {
		held := hold()
		waiting := goLockWaiting(t, soon(t), m, c.Client)
		meanwhile(held)
		before := c.requests.about(m.Name())
		mustUnlock(t, held)
		next := had(t, waiting)
		if c.requests.about(m.Name()) == before {
			return next.lease
		}
		mustUnlock(t, next.lease)
	}
	require.FailNow(t, "nobody was woken", "the waiter had to ask for %q each time", m.Name())
	return nil
}

type tally struct {
	mu    sync.Mutex
	byKey map[string]int // the first one: that of the lock
}

func (y *tally) count(cmds ...driver.Command) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, cmd := range cmds {
		if cmd.NumKeys > 0 {
			y.byKey[cmd.Args[cmd.FirstKey]]++
		}
	}
}

func (y *tally) about(key string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.byKey[key]
}

type countedConnector struct {
	driver.Connector
	requests *tally
}

func (c countedConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{driver.Wrapper{Conn: conn}, c.requests}, nil
}

type countedConn struct {
	driver.Wrapper
	requests *tally
}

func (c countedConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	c.requests.count(cmd)
	return c.Conn.Do(ctx, cmd)
}

func (c countedConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	c.requests.count(cmds...)
	return driver.DoBatch(ctx, c.Conn, cmds)
}

func (c countedConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	return c.Conn.(driver.Subscriber).Subscribe(ctx)
}

func (c countedConn) Describe(ctx context.Context) (driver.Topology, error) {
	return c.Conn.(driver.Describer).Describe(ctx)
}
