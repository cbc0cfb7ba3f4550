package integration_test

import (
	"fmt"
	"slices"
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

// A list that is empty, or ends, for want of a permission says so: only names that the user may not
// look at are left out.
func TestListNamesTheCommandThatIsMissing(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	all := append(user.Rules, "+scan", "+cluster|slots")
	server := servertest.Single(t, servertest.Users(user))
	cluster := servertest.Cluster(t, 2, servertest.Users(user))
	for where, nodes := range map[string][]*servertest.Server{server.Addr: {server}, cluster.Nodes[0].Addr + "?mode=cluster": cluster.Nodes} {
		mustLock(t, drivers[0].open(t, "redis://"+where).Mutex("orders:1"))
		for _, missing := range []string{"+scan", "+evalsha", "+eval", "+type"} {
			rules := slices.DeleteFunc(slices.Clone(all), func(rule string) bool { return rule == missing })
			for _, node := range nodes {
				do(t, node, append([]string{"ACL", "SETUSER", user.Name, "reset"}, servertest.Rules(t, rules...)...)...)
				do(t, node, "SCRIPT", "FLUSH")
			}
			var ends error
			for _, err := range drivers[0].open(t, "redis://"+user.Name+":"+user.Password+"@"+where).List(soon(t), "") {
				ends = err
			}
			requirePermissionError(t, ends, missing, "List of "+where)
		}
	}
}
