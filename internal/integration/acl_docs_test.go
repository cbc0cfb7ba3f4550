package integration_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// What a script runs in a corner that no test comes to is permitted, too.
func TestThePermissionsOfTheDocsNameWhatScriptsRun(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t).Rules
	scripts, err := filepath.Glob("../../locker/lua/*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	command := regexp.MustCompile(`redis\.p?call\('([A-Z]+)'(?:, '([A-Z]+)')?`)
	for _, script := range scripts {
		if filepath.Base(script) == "scan.lua" {
			continue // only who lists locks needs it; the docs say so beside the line
		}
		source, err := os.ReadFile(script)
		require.NoError(t, err)
		for _, call := range command.FindAllSubmatch(source, -1) {
			name := string(call[1])
			if subcommand := string(call[2]); subcommand != "" {
				name += "|" + subcommand
			}
			assert.Contains(t, user, "+"+strings.ToLower(name), filepath.Base(script))
		}
	}
}

// The ACL line of docs/servers.md is enough for everything a client does, with a lock
// of any kind.
func TestThePermissionsOfTheDocsSuffice(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Users(user))
		useAs(t, d, "redis://"+user.Name+":"+user.Password+"@"+srv.Addr)
		srv.AssertPermitted(user)
	})
}

// Applications that share a server can be kept from each other's side keys.
func TestThePermissionsOfOneApplicationSuffice(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	i := slices.Index(user.Rules, "~__golocker:*")
	require.GreaterOrEqual(t, i, 0)
	user.Rules[i] = "~__golocker:*orders:*"
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Users(user))
		useAs(t, d, "redis://"+user.Name+":"+user.Password+"@"+srv.Addr)
		srv.AssertPermitted(user)
	})
}

// In a Cluster it needs what the docs add to it.
func TestThePermissionsOfTheDocsSufficeInACluster(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	page, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	more := regexp.MustCompile(`(?m)^ *ACL SETUSER ` + user.Name + ` (\+cluster.*)$`).FindSubmatch(page)
	require.NotNil(t, more, "the docs do not say what a Cluster needs")
	user.Rules = append(user.Rules, strings.Fields(string(more[1]))...)
	nodes := servertest.Cluster(t, 3, servertest.Users(user))
	t.Run("all", func(t *testing.T) {
		eachDriver(t, func(t *testing.T, d driverUnderTest) {
			if !d.cluster {
				return
			}
			t.Parallel()
			useAs(t, d, "redis://"+user.Name+":"+user.Password+"@"+strings.Join(nodes.Addrs(), ",")+"?mode=cluster")
		})
	})
	for _, node := range nodes.Nodes {
		node.AssertPermitted(user)
	}
}

// useAs does with locks of all kinds whatever can be done.
func useAs(t *testing.T, d driverUnderTest, dsn string) {
	a, b := d.open(t, dsn), newCountedClient(t, d.byDSN(t, dsn))
	for _, kind := range lockKinds {
		name := "orders:" + d.name + ":" + kind.name
		next := b.requireWoken(t, kind.on(b.Client, name), func() *locker.Lease { return mustLock(t, kind.against(a, name)) }, func(held *locker.Lease) {
			require.NoError(t, held.Extend(soon(t), time.Hour))
		})
		id, err := next.Detach(soon(t), time.Minute)
		require.NoError(t, err, kind.name)
		taken, err := kind.on(a, name).Attach(soon(t), id)
		require.NoError(t, err, kind.name)
		if taken.Mode() == locker.Reading {
			upgraded, err := taken.Upgrade(soon(t))
			require.NoError(t, err)
			downgraded, err := upgraded.Downgrade(soon(t))
			require.NoError(t, err)
			require.NoError(t, downgraded.Unlock(soon(t)))
		}
		_, err = b.ForceRelease(soon(t), name)
		require.NoError(t, err, kind.name)
		assert.ErrorIs(t, taken.Unlock(soon(t)), locker.ErrAbsent, kind.name)
	}
}
