package integration_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/redlock"
)

// A fleet is the independent servers of a quorum, and the driver through which each is
// reached.
type fleet struct {
	servers []*servertest.Server
	drivers []driverUnderTest // by node
}

// crews are which drivers reach the nodes: each of them, and a mix of clients that an
// application has wrapped.
var crews = func() map[string][]driverUnderTest {
	const most = 5
	all := map[string][]driverUnderTest{}
	for _, d := range drivers {
		all[d.name] = slices.Repeat([]driverUnderTest{d}, most)
	}
	for i := range most {
		d := drivers[i%len(drivers)]
		d.wrapped = d.name != "rueidis" // which cannot be made while its server is down
		all["mixed"] = append(all["mixed"], d)
	}
	return all
}()

// eachFleet runs f for every crew, each with n servers of its own that have been part
// of a quorum for long, and several at the same time.
func eachFleet(t *testing.T, n int, f func(t *testing.T, q fleet)) {
	t.Helper()
	t.Parallel()
	for name, crew := range crews {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			berths <- struct{}{}
			t.Cleanup(func() { <-berths })
			f(t, newFleet(t, crew, servertest.Servers(t, n)))
		})
	}
}

// berths are how many fleets there are at a time, of five processes each.
var berths = make(chan struct{}, 5)

// unhurried is how nodes are asked where a test is not about how long that takes.
var unhurried = redlock.Config{NodeTimeout: 5 * time.Second}

func newFleet(t *testing.T, crew []driverUnderTest, servers []*servertest.Server) fleet {
	t.Helper()
	q := fleet{servers: servers, drivers: crew[:len(servers)]}
	// A node that is not made part of it now is not for the longest TTL.
	c := q.client(t, redlock.Config{Bootstrap: true, NodeTimeout: patience})
	mustUnlock(t, mustLock(t, c.Mutex("first")))
	require.NoError(t, c.Close())
	q.assertEmptyWithin(t, patience)
	return q
}

func (q fleet) addrs() []string {
	var addrs []string
	for _, s := range q.servers {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// client returns a client that reaches the servers directly. It is unhurried unless
// the options say otherwise.
func (q fleet) client(t *testing.T, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	return q.clientVia(t, q.addrs(), opts...)
}

// wired returns a client that reaches each server through a line of its own.
func (q fleet) wired(t *testing.T, opts ...locker.ClientOption) (*locker.Client, lines) {
	t.Helper()
	var all lines
	var addrs []string
	for _, s := range q.servers {
		w, addr := newWire(t, s.Addr)
		all, addrs = append(all, w), append(addrs, addr)
	}
	return q.clientVia(t, addrs, opts...), all
}

func (q fleet) clientVia(t *testing.T, addrs []string, opts ...locker.ClientOption) *locker.Client {
	t.Helper()
	c, err := redlock.New(q.connectors(t, addrs), append([]locker.ClientOption{unhurried}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func (q fleet) connectors(t *testing.T, addrs []string) []driver.Connector {
	t.Helper()
	var all []driver.Connector
	for i, addr := range addrs {
		d := q.drivers[i]
		if d.wrapped {
			all = append(all, d.wrap(t, addr))
			continue
		}
		c, err := locker.OpenConnector(d.name, "redis://"+addr)
		require.NoError(t, err)
		all = append(all, c)
	}
	return all
}

// warm makes all connections of a client, so that what follows is not about those, and
// leaves no node behind.
func warm(t *testing.T, c *locker.Client) {
	t.Helper()
	eventually(t, "all nodes answer", func() bool {
		lease, err := c.Mutex("warm").Lock(soon(t))
		if err != nil || lease.Unlock(soon(t)) != nil {
			return false // connecting took longer than a node may
		}
		return !slices.ContainsFunc(c.Nodes(), func(n locker.NodeHealth) bool {
			return n.Answered.IsZero() || n.Suspect || n.Err != nil
		})
	})
}

func mustUnlock(t *testing.T, lease *locker.Lease) {
	t.Helper()
	require.NoError(t, lease.Unlock(soon(t)))
}

// holding returns how many of the servers that run have the key.
func (q fleet) holding(t *testing.T, key string) int {
	t.Helper()
	n := 0
	for _, s := range q.servers {
		if s.PID() != 0 && exists(t, s, key) {
			n++
		}
	}
	return n
}

// leftovers returns the keys of locks on the servers that run, by node. What is kept
// on purpose is not among them, see [keys], nor are the mark of a node that is not new, and
// those by which one that does not tell its run id is known.
func (q fleet) leftovers(t *testing.T) []string {
	t.Helper()
	var left []string
	for i, s := range q.servers {
		if s.PID() == 0 {
			continue
		}
		for _, key := range keys(t, s) {
			if !strings.HasPrefix(key, "__golocker:n") {
				left = append(left, fmt.Sprintf("node %d: %s", i, key))
			}
		}
	}
	return left
}

func (q fleet) assertEmptyWithin(t *testing.T, d time.Duration) {
	t.Helper()
	var left []string
	if !becomes(d, func() bool { left = q.leftovers(t); return len(left) == 0 }) {
		assert.Fail(t, "it outlived its TTL", "after %v there is still\n%s", d, strings.Join(left, "\n"))
	}
	for _, s := range q.servers {
		if s.PID() != 0 {
			assertMortal(t, s)
		}
	}
}

// lines are those of one client to its nodes.
type lines []*wire.Wire

// each makes a rule on every line.
func (l lines) each(m wire.Match, a wire.Action) []*wire.Rule {
	var rules []*wire.Rule
	for _, w := range l {
		rules = append(rules, w.On(m, a))
	}
	return rules
}

func (l lines) partition() {
	for _, w := range l {
		w.Partition()
	}
}

func (l lines) heal() {
	for _, w := range l {
		w.Heal()
	}
}

// requireNoMajority checks that err says that too few nodes answered, and what each of
// them said.
func requireNoMajority(t *testing.T, err error, nodes int) {
	t.Helper()
	require.ErrorIs(t, err, locker.ErrUnavailable)
	require.NotErrorIs(t, err, locker.ErrLocked, "nobody can know that")
	var q *locker.QuorumError
	require.ErrorAs(t, err, &q)
	require.Len(t, q.Votes, nodes)
	for i, v := range q.Votes {
		assert.Equal(t, i, v.Node)
		assert.NotEmpty(t, v.Answer, "node %d", i)
		assert.ErrorContains(t, err, fmt.Sprintf("node %d: ", i))
	}
}

// A tokenOrder checks that each grant has a larger token than the one before.
type tokenOrder struct{ last locker.Token }

func (o *tokenOrder) next(t *testing.T, lease *locker.Lease) {
	t.Helper()
	assert.Greater(t, lease.Token(), o.last, "a later grant without a larger token")
	o.last = max(o.last, lease.Token())
}
