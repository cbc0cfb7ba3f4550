package integration_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// failoverBound is how long after Sentinels have agreed on a new master a lock on
// it has to be had.
const failoverBound = 15 * time.Second

// What is guaranteed across a failover, and what is not. The replica may lag: then
// it does not know of the lease, somebody else is let in while the first holder
// goes on until its next renewal (I1 is broken), and only the fencing token keeps
// the resource safe. The token grows although the last one may be lost, too,
// because it is not below the new master's clock; that holds as long as that
// clock does not stand behind the old one's. A holder finds out by its next
// renewal, and nothing makes its key again.
func TestSentinelFailoverLocksAgainAndTokensGrow(t *testing.T) {
	t.Parallel()
	nodes := servertest.Sentinel(t, servertest.Password(canary))
	dsn := "redis://:" + canary + "@" + strings.Join(nodes.Addrs(), ",") + "?mode=sentinel&master=" + servertest.MasterName
	type user struct {
		driverUnderTest
		client *locker.Client
		lease  *locker.Lease // held across the failover
		last   locker.Token
	}
	var users []*user
	for _, d := range drivers {
		u := &user{driverUnderTest: d}
		requireWorks(t, d, dsn)
		u.client = d.open(t, dsn, locker.Fenced(), locker.AttemptTimeout(patience/4))
		users = append(users, u)
	}
	again := func(after string) {
		var all sync.WaitGroup
		for _, u := range users {
			all.Go(func() {
				var lease *locker.Lease
				var err error
				took := timed(func() { lease, err = u.client.Mutex("job of " + u.name).Lock(within(t, failoverBound)) })
				if !assert.NoError(t, err, "%s, %s", u.name, after) {
					return
				}
				t.Logf("%s: %s locks again %v after %s", after, u.name, took.Round(time.Millisecond), "the Sentinels agree")
				assert.Greater(t, lease.Token(), u.last, "%s, %s: a token that does not grow", u.name, after)
				u.last = lease.Token()
				assert.NoError(t, lease.Unlock(soon(t)))
			})
		}
		all.Wait()
	}
	again("the start")
	for _, u := range users {
		u.lease = mustTryLock(t, u.client.Mutex("held by "+u.name, locker.TTL(20*time.Second)))
	}
	require.Equal(t, int64(1), do(t, nodes.Master(), "WAIT", "1", "10000"))

	nodes.Failover()
	again("a failover by command")
	for _, u := range users {
		assert.True(t, survivesRenewals(u.lease, 1), "%s: the new master knows the lease and it was lost: %v", u.name, u.lease.Err())
	}

	old := nodes.Master()
	require.Equal(t, int64(1), do(t, old, "WAIT", "1", "10000"))
	old.Kill()
	master := nodes.MasterOtherThan(old)
	again("the master's death")
	for _, u := range users {
		assert.True(t, survivesRenewals(u.lease, 1), "%s: %v", u.name, u.lease.Err())
	}

	// The new master has lost everything: all learn it.
	master.Flush()
	for _, u := range users {
		assert.ErrorIs(t, lossOf(t, u.lease), locker.ErrAbsent, u.name)
	}
	again("a loss of all data")
}
