package integration_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A behind is a client that hears on a replica: the command FAILOVER leaves the
// subscriptions where they are, on what was the master, and messages come to it by
// replication.
type behind struct {
	driver.Connector
	replica driver.Connector
}

func (b behind) Connect(ctx context.Context) (driver.Conn, error) {
	master, err := b.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	replica, err := b.replica.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return behindConn{master, replica}, nil
}

type behindConn struct {
	driver.Conn
	replica driver.Conn
}

func (c behindConn) Close() error { return errors.Join(c.Conn.Close(), c.replica.Close()) }

func (c behindConn) Describe(ctx context.Context) (driver.Topology, error) {
	return c.Conn.(driver.Describer).Describe(ctx)
}

func (c behindConn) Subscribe(ctx context.Context) (driver.Subscription, error) {
	return c.replica.(driver.Subscriber).Subscribe(ctx)
}

// A PUBLISH that no client of the master received may be heard all the same.
func TestWaiterWhoHearsOnAReplicaIsNotGrantedWhatAnotherOneHas(t *testing.T) {
	t.Parallel()
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		servers := servertest.Servers(t, 2)
		master, replica := servers[0], servers[1]
		do(t, replica, "REPLICAOF", "127.0.0.1", master.Port())
		eventually(t, "the replica follows", func() bool {
			role := do(t, replica, "ROLE").([]any)
			return role[3] == "connected"
		})
		for name, opts := range map[string][]locker.Option{"mutex": nil, "reentrant": {locker.Reentrant()}} {
			a, b := d.client(t, master.Addr), d.client(t, master.Addr)
			far := newClient(t, behind{d.wrap(t, master.Addr), d.wrap(t, replica.Addr)})
			held := mustLock(t, a.Mutex(name, opts...))
			first := goLockWaiting(t, soon(t), far.Mutex(name, opts...), a)
			second := goLockWaiting(t, soon(t), b.Mutex(name, opts...), a)
			eventually(t, "both are known to listen", func() bool {
				entries := do(t, master, "HVALS", "__golocker:w:{"+name+"}:"+name).([]any)
				return !slices.ContainsFunc(entries, func(e any) bool { return !strings.HasPrefix(e.(string), "gl1|1|") })
			})
			require.NoError(t, held.Unlock(soon(t)))
			one := had(t, second)
			select {
			case two := <-first:
				assert.Falsef(t, one.lease.Valid() && two.lease.Valid(), "%s: both hold it", name)
			case <-time.After(500 * time.Millisecond):
			}
			require.NoError(t, one.lease.Unlock(soon(t)))
		}
	})
}
