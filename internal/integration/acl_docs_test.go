package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
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
		useAs(t, d, "redis://"+user.Name+":"+user.Password+"@"+srv.Addr, "orders:")
		srv.AssertPermitted(user)
	})
}

// oneApplication is the user of docs/servers.md with the pattern that docs/security.md has for
// one application's side keys.
func oneApplication(t *testing.T) servertest.User {
	t.Helper()
	page, err := os.ReadFile("../../docs/security.md")
	require.NoError(t, err)
	pattern := regexp.MustCompile("give it `(~__golocker:[^`]+)` instead").FindSubmatch(page)
	require.NotNil(t, pattern, "the docs do not say how applications are kept apart")
	user := servertest.LocksUser(t)
	i := slices.Index(user.Rules, "~__golocker:*")
	require.GreaterOrEqual(t, i, 0)
	user.Rules[i] = string(pattern[1])
	return user
}

// Applications that share a server can be kept from each other's side keys, whatever the names of
// their locks, which say what stands between braces in those.
func TestThePermissionsOfOneApplicationSuffice(t *testing.T) {
	t.Parallel()
	user := oneApplication(t)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Users(user))
		for _, names := range []string{"orders:", "orders:{42}:", "orders:{a", "orders:a}b", "orders:{}", "orders:{a}:orders:{b}"} {
			useAs(t, d, "redis://"+user.Name+":"+user.Password+"@"+srv.Addr, names)
		}
		srv.AssertPermitted(user)
	})
}

// What a quorum and a listing need besides is what the docs say.
func TestThePermissionsOfOneApplicationSufficeOnAQuorumAndToList(t *testing.T) {
	t.Parallel()
	user := oneApplication(t)
	user.Rules = append(user.Rules, "~__golocker:n*", "~__golocker:l", "~__golocker:s:*", "+scan", "+cluster|slots", "+cluster|shards", "+asking")
	login := "redis://" + user.Name + ":" + user.Password + "@"
	cluster := servertest.Cluster(t, 2, servertest.Users(user))
	var nodes []*servertest.Server
	var dsns []string
	for _, srv := range servertest.Servers(t, 3, servertest.Users(user)) {
		nodes = append(nodes, srv)
		dsns = append(dsns, login+srv.Addr)
	}
	quorum, err := redlock.Open("goredis", dsns, unhurried, redlock.Config{Bootstrap: true, NodeTimeout: patience})
	require.NoError(t, err)
	t.Cleanup(func() { _ = quorum.Close() })
	for _, client := range []*locker.Client{quorum, drivers[0].open(t, login+cluster.Nodes[0].Addr+"?mode=cluster")} {
		for _, kind := range lockKinds {
			name := "orders:" + kind.name
			held := mustLock(t, kind.against(client, name))
			assert.Equal(t, []string{name}, namesListed(t, client, ""))
			next := goLock(soon(t), kind.on(client, name))
			mustUnlock(t, held)
			result := <-next
			require.NoError(t, result.err)
			mustUnlock(t, result.lease)
		}
	}
	for _, srv := range append(nodes, cluster.Nodes...) {
		srv.AssertPermitted(user)
	}
}

// One application can read, and break, nothing of another's locks, however alike the names.
func TestThePermissionsOfOneApplicationDoNotReachAnother(t *testing.T) {
	t.Parallel()
	user := oneApplication(t)
	srv := servertest.Single(t, servertest.Users(user))
	other, waiter := drivers[0].client(t, srv.Addr), drivers[0].client(t, srv.Addr)
	for _, name := range []string{"backorders:1", "billing:1", "billing:{orders:1}", "billing:orders:1", "{orders:1}", "a}orders:1", "order"} {
		mustLock(t, other.Mutex(name, locker.Fenced()))
		oneWaits := func() bool { return status(t, other, name).Waiters == 1 }
		ctx, giveUp := context.WithCancel(t.Context())
		gaveUp := goLock(ctx, waiter.Mutex(name, locker.Fenced()))
		eventually(t, "somebody waits", oneWaits)
		giveUp() // which leaves its id for a while
		require.ErrorIs(t, (<-gaveUp).err, context.Canceled)
		goLock(t.Context(), waiter.Mutex(name, locker.Fenced()))
		eventually(t, "somebody waits again", oneWaits)
	}
	every := do(t, srv, "KEYS", "*").([]any)
	assert.Greater(t, len(every), 4*7, "records, tokens, queues and entries")
	as := redis.NewClient(&redis.Options{Addr: srv.Addr, Username: user.Name, Password: user.Password})
	t.Cleanup(func() { _ = as.Close() })
	for _, key := range every {
		assert.ErrorContains(t, as.Del(t.Context(), key.(string)).Err(), "NOPERM", "%s is deleted", key)
		assert.ErrorContains(t, as.Get(t.Context(), key.(string)).Err(), "NOPERM", "%s is read", key)
	}
}

// In a Cluster it needs what the docs add to it.
func TestThePermissionsOfTheDocsSufficeInACluster(t *testing.T) {
	t.Parallel()
	user := servertest.LocksUser(t)
	user.Rules = append(user.Rules, documented(t, user.Name+` (\+cluster.*)`)...)
	nodes := servertest.Cluster(t, 3, servertest.Users(user))
	t.Run("all", func(t *testing.T) {
		eachDriver(t, func(t *testing.T, d driverUnderTest) {
			if !d.cluster {
				return
			}
			t.Parallel()
			useAs(t, d, "redis://"+user.Name+":"+user.Password+"@"+strings.Join(nodes.Addrs(), ",")+"?mode=cluster", "orders:")
		})
	})
	for _, node := range nodes.Nodes {
		node.AssertPermitted(user)
	}
}

// With Sentinel it needs what the docs add to it, and so does the user that clients are to the
// Sentinels. They hear of failovers.
func TestThePermissionsOfTheDocsSufficeBehindSentinel(t *testing.T) {
	t.Parallel()
	servertest.SkipBefore(t, 6, 2, "a Sentinel with users")
	user := servertest.LocksUser(t)
	user.Rules = append(user.Rules, documented(t, user.Name+` (\+role.*)`)...)
	asker := newAsker(t)
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		nodes := servertest.Sentinel(t, servertest.Users(user), asker.atSentinels())
		dsn := asker.dsn(user.Name+":"+user.Password+"@", nodes)
		useAs(t, d, dsn, "orders:")
		client := d.open(t, dsn)
		mustUnlock(t, mustLock(t, client.Mutex("orders:before")))
		listens := regexp.MustCompile(`(?m) sub=[1-9].* user=` + asker.Name)
		eventually(t, "a Sentinel tells the client of failovers", func() bool {
			return slices.ContainsFunc(nodes.Sentinels, func(s *servertest.Server) bool {
				return listens.MatchString(fmt.Sprint(do(t, s, "CLIENT", "LIST")))
			})
		})
		nodes.Failover()
		lease, err := client.Mutex("orders:after").Lock(within(t, failoverBound))
		require.NoError(t, err)
		mustUnlock(t, lease)
		for _, server := range nodes.Data {
			server.AssertPermitted(user)
		}
		for _, sentinel := range nodes.Sentinels {
			sentinel.AssertPermitted(asker.User)
		}
	})
}

// Clients are one user to the servers and another one to the Sentinels: who is refused something
// has to know which of them misses it.
func TestAPermissionThatIsMissingAtTheSentinelsIsSaidToBeMissingThere(t *testing.T) {
	t.Parallel()
	servertest.SkipBefore(t, 7, 0, "a refusal that names the subcommand")
	const rule = "+sentinel|get-master-addr-by-name"
	asker := newAsker(t)
	asker.Rules = slices.DeleteFunc(asker.Rules, func(r string) bool { return r == rule })
	nodes := servertest.Sentinel(t, asker.atSentinels())
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		m := d.open(t, asker.dsn("", nodes)).Mutex("lock")
		var err error
		eventually(t, "a Sentinel answers: those that write to a slow disk do not for a while", func() bool {
			_, err = m.Lock(soon(t))
			return !errors.Is(err, locker.ErrUnavailable)
		})
		requirePermissionError(t, err, rule, "Lock")
		assert.ErrorContains(t, err, "a Sentinel's ACL")
	})
}

// An asker is the user that docs/servers.md has clients be to the Sentinels.
type asker struct{ servertest.User }

func newAsker(t *testing.T) asker {
	t.Helper()
	rules := documented(t, `asks (on .*)`)
	i := slices.IndexFunc(rules, func(rule string) bool { return rule[0] == '>' })
	require.GreaterOrEqual(t, i, 0)
	return asker{servertest.User{Name: "asks", Password: rules[i][1:], Rules: rules}}
}

func (a asker) atSentinels() servertest.Option {
	return servertest.SentinelConfig("user", append([]string{a.Name}, a.Rules...)...)
}

func (a asker) dsn(user string, nodes *servertest.SentinelNodes) string {
	return "redis://" + user + strings.Join(nodes.Addrs(), ",") + "?mode=sentinel&client_name=here&master=" + servertest.MasterName +
		"&sentinel_username=" + a.Name + "&sentinel_password=" + a.Password
}

// documented returns the rules that a line of ACL SETUSER in docs/servers.md has where the pattern
// has its group.
func documented(t *testing.T, pattern string) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`(?m)^ *ACL SETUSER ` + pattern + `$`).FindSubmatch(page)
	require.NotNil(t, line, "the docs have no line ACL SETUSER %s", pattern)
	return strings.Fields(string(line[1]))
}

// useAs does with locks of all kinds, whose names begin so, whatever can be done.
func useAs(t *testing.T, d driverUnderTest, dsn, names string) {
	a, b := d.open(t, dsn), newCountedClient(t, d.byDSN(t, dsn))
	for _, kind := range lockKinds {
		name := names + d.name + ":" + kind.name
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
