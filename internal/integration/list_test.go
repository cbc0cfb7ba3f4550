package integration_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// namesListed returns the names that List yields.
func namesListed(t *testing.T, c *locker.Client, prefix string) []string {
	t.Helper()
	var names []string
	for found, err := range c.List(soon(t), prefix) {
		require.NoError(t, err)
		names = append(names, found.Name)
	}
	return names
}

// The locks of a Cluster lie on all of its masters; no driver has a way to address one.
func TestListFindsTheLocksOfEveryMaster(t *testing.T) {
	t.Parallel()
	cluster := servertest.Cluster(t, 3)
	eachClusterWay(t, func(t *testing.T, d driverUnderTest) {
		c := d.clusterClient(t, cluster.Addrs()[:1], locker.Prefix("app:"))
		var want []string
		for i := range 50 {
			name := fmt.Sprintf("%s-%v-%d", d.name, d.wrapped, i)
			mustLock(t, c.Mutex(name))
			want = append(want, name)
		}
		mustLock(t, c.Mutex("other"))
		assert.ElementsMatch(t, want, namesListed(t, c, d.name))
		assert.Len(t, namesListed(t, c, ""), 51)
		require.NoError(t, c.Close())
	})
}

// What docs/servers.md names beside the line for those who take locks is enough to list
// them, in a Cluster too, and by name only what the user may look at.
func TestListNeedsWhatTheDocsSay(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	rules := append([]string{user.Name}, user.Rules...)
	server := servertest.Single(t, servertest.Config("user", append(rules, "+scan")...))
	cluster := servertest.Cluster(t, 2, servertest.Config("user", append(rules, "+scan", "+cluster|slots")...))
	for _, where := range []string{server.Addr, cluster.Nodes[0].Addr + "?mode=cluster"} {
		everything := drivers[0].open(t, "redis://"+where)
		mustLock(t, everything.Mutex("secret:1"))
		c := drivers[0].open(t, "redis://"+user.Name+":"+user.Password+"@"+where)
		mustLock(t, c.Mutex("orders:1"))
		assert.Equal(t, []string{"orders:1"}, namesListed(t, c, ""))
	}
}
