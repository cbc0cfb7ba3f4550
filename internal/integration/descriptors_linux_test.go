package integration_test

import (
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	redigoclient "github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// scarceVariable has the tests below run out of descriptors themselves, in a process of its own for
// each. It is the addresses of servers.
const scarceVariable = "GOLOCKER_INTEGRATION_SCARCE"

// scarceTTL outlasts all that is tried in vain on a busy machine.
const scarceTTL = 2 * quorumTTL

// A process that is out of descriptors can make no connection. It says so, and not that a lock is
// held by others; it loses nothing before a lease's time is over; and it goes on when it has some again.
func TestAProcessOutOfDescriptorsGoesOnAfterwards(t *testing.T) {
	if addr := os.Getenv(scarceVariable); addr != "" {
		eachWay(t, func(t *testing.T, d driverUnderTest) {
			runOutOfDescriptors(t, !d.wrapped, []string{addr}, func() driver.Connector { return d.connector(t, addr) })
		})
		return
	}
	eachWayOnServer(t, func(t *testing.T, _ driverUnderTest, srv *servertest.Server) { inScarcity(t, srv.Addr) })
}

func TestClusterAProcessOutOfDescriptorsGoesOnAfterwards(t *testing.T) {
	if list := os.Getenv(scarceVariable); list != "" {
		addrs := strings.Split(list, ",")
		eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
			runOutOfDescriptors(t, false, addrs, func() driver.Connector { return d.clusterConnector(t, addrs) })
		})
		return
	}
	t.Parallel()
	eachClusterWay(t, func(t *testing.T, _ driverUnderTest) {
		t.Parallel()
		inScarcity(t, servertest.Cluster(t, 2).Addrs()...)
	})
}

func TestSentinelAProcessOutOfDescriptorsGoesOnAfterwards(t *testing.T) {
	if list := os.Getenv(scarceVariable); list != "" {
		addrs := strings.Split(list, ",")
		eachDriver(t, func(t *testing.T, d driverUnderTest) {
			dsn := "redis://" + strings.Join(addrs[2:], ",") + "?mode=sentinel&master=" + servertest.MasterName
			runOutOfDescriptors(t, false, addrs, func() driver.Connector { return d.byDSN(t, dsn) })
		})
		return
	}
	t.Parallel()
	eachDriver(t, func(t *testing.T, _ driverUnderTest) {
		t.Parallel()
		nodes := servertest.Sentinel(t)
		inScarcity(t, append([]string{nodes.Data[0].Addr, nodes.Data[1].Addr}, nodes.Addrs()...)...)
	})
}

func inScarcity(t *testing.T, addrs ...string) {
	inAnotherProcess(t, scarceVariable+"="+strings.Join(addrs, ","))
}

// runOutOfDescriptors takes away the descriptors of the process, and its connections to the servers. unsent
// tells that it is known of a client which has never had one.
func runOutOfDescriptors(t *testing.T, unsent bool, addrs []string, connector func() driver.Connector) {
	var admins []redigoclient.Conn
	for _, addr := range addrs {
		admin, err := redigoclient.Dial("tcp", addr)
		require.NoError(t, err)
		t.Cleanup(func() { _ = admin.Close() })
		admins = append(admins, admin)
	}
	c, late := newClient(t, connector(), locker.TTL(scarceTTL)), newClient(t, connector())
	other := newCountedClient(t, connector())
	var held []*locker.Lease
	for _, kind := range lockKinds {
		held = append(held, mustTryLock(t, kind.on(c, kind.name)))
	}
	waiting := goLockWaiting(t, soon(t), other.Mutex(plainKind.name), c)

	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	restore := func() { require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit)) }
	t.Cleanup(restore)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}))
	for _, admin := range admins {
		for _, kind := range []string{"normal", "pubsub"} {
			_, err := admin.Do("CLIENT", "KILL", "TYPE", kind)
			require.NoError(t, err)
		}
	}
	var all sync.WaitGroup // since go-redis may dial several times
	for _, client := range []*locker.Client{c, late} {
		for _, kind := range lockKinds {
			all.Go(func() {
				_, err := kind.on(client, "free").TryLock(soon(t))
				assert.ErrorIs(t, err, locker.ErrUnavailable, kind.name)
				assert.NotErrorIs(t, err, locker.ErrLocked, kind.name)
				assert.ErrorContains(t, err, syscall.EMFILE.Error(), kind.name)
				if client == late && unsent {
					assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err), kind.name)
				}
			})
		}
	}
	all.Wait()
	eventually(t, "renewals fail", func() bool {
		for _, lease := range c.Snapshot().Leases {
			if lease.RenewErr == nil {
				return false
			}
		}
		return true
	})
	for _, lease := range held {
		assert.True(t, lease.Valid(), "%s: %v", lease.Name(), lease.Err())
	}
	restore()

	for _, lease := range held {
		assert.True(t, survivesRenewals(lease, 1), "%s: %v", lease.Name(), lease.Err())
		require.NoError(t, lease.Unlock(soon(t)), lease.Name())
	}
	require.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
	woken := other.requireWoken(t, other.Mutex("again"), func() *locker.Lease { return mustLock(t, late.Mutex("again")) }, func(*locker.Lease) {})
	require.NoError(t, woken.Unlock(soon(t)))
}
