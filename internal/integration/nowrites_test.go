package integration_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// What a server knows that takes no writes may be of another time: a former master tells of
// holders who are long gone.
func TestAServerThatTakesNoWritesNeverSaysLocked(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"READONLY", "NOREPLICAS", "MISCONF"} {
		t.Run(code, func(t *testing.T) {
			eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
				holder, waiting, other := d.client(t, srv.Addr), d.client(t, srv.Addr), d.client(t, srv.Addr)
				connect(t, other)
				ctx, cancel := context.WithCancel(soon(t))
				waiters := map[string]<-chan lockResult{}
				for _, kind := range lockKinds {
					mustTryLock(t, kind.against(holder, kind.name))
					waiters[kind.name] = goLockWaiting(t, ctx, kind.on(waiting, kind.name), holder)
				}
				phases[code].begin(t, srv)
				defer phases[code].end(t, srv)
				for _, kind := range lockKinds {
					_, err := kind.on(other, kind.name).TryLock(soon(t))
					assert.ErrorIs(t, err, locker.ErrUnavailable, kind.name)
					assert.NotErrorIs(t, err, locker.ErrLocked, kind.name)
					requireCode(t, err, code)
				}
				lasts(t, 3*time.Second, func() {}) // waiters look every second
				cancel()
				for name, waiter := range waiters {
					r := <-waiter
					assert.ErrorIs(t, r.err, context.Canceled, name)
					assert.ErrorIs(t, r.err, locker.ErrUnavailable, name)
					assert.NotErrorIs(t, r.err, locker.ErrLocked, name)
				}
			})
		})
	}
}

// Whoever waits for a lock that is always held would else never learn that the name leads
// to another master, and stand in no queue that anybody serves.
func TestWaiterAtAFormerMasterComesToTheNewOne(t *testing.T) {
	t.Parallel()
	for _, d := range []driver.Driver{goredis.Driver{}, redigo.Driver{}, rueidis.Driver{}} {
		for _, kind := range lockKinds {
			t.Run(fmt.Sprintf("%T %s", d, kind.name), func(t *testing.T) {
				t.Parallel()
				servers := servertest.Servers(t, 2)
				former, master := servers[0], servers[1]
				var leads atomic.Pointer[string]
				leads.Store(&former.Addr)
				connector, err := d.OpenConnector(driver.Config{
					Network: "tcp", Addrs: []string{"master:6379"},
					Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
						return new(net.Dialer).DialContext(ctx, network, *leads.Load())
					},
				})
				require.NoError(t, err)
				c := newClient(t, connector)
				connect(t, c)
				there := newClient(t, goredis.Wrap(redis.NewClient(&redis.Options{Addr: master.Addr})))
				held := mustTryLock(t, kind.against(there, "k"))
				do(t, former, "REPLICAOF", "127.0.0.1", master.Port())
				leads.Store(&master.Addr)
				eventually(t, "the former master knows of the lock", func() bool {
					return do(t, former, "ROLE").([]any)[3] == "connected" && exists(t, former, "k")
				})
				waiting := goLockWaiting(t, soon(t), kind.on(c, "k"), there)
				require.NoError(t, held.Unlock(soon(t)))
				require.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
			})
		}
	}
}
