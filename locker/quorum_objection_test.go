package locker

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// refuse has a node answer that to what the server does for these scripts, and to all else
// if there are none.
func (f *fakeDeployment) refuse(reply string, scripts ...*script) {
	f.set(func() {
		f.before = func(_ context.Context, cmd driver.Command) error {
			hit := len(scripts) == 0
			for _, s := range scripts {
				hit = hit || s.runs(cmd)
			}
			if hit {
				return driver.NewServerError(reply)
			}
			return nil
		}
	})
}

// pairs takes locks and gives them back, each for so long that all nodes are asked.
func pairs(t *testing.T, c *Client, opts ...Option) {
	t.Helper()
	for range 5 {
		lease := must(t, c.Mutex("pair", opts...))
		time.Sleep(time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	synctest.Wait()
}

// A node that answers, but gives no locks, is none to rely on.
func TestQuorumNodesTellWhoRefusesLocks(t *testing.T) {
	for reply, scripts := range map[string][]*script{
		"READONLY You can't write against a read only replica.":         nil,
		"OOM command not allowed when used memory > 'maxmemory'.":       {mutexFamily.acquire, holdFamily.acquire, takeScript, markScript},
		"LOADING Redis is loading the dataset in memory":                nil,
		"NOPERM this user has no permissions to run the 'evalsha' comm": nil,
	} {
		for _, opts := range [][]Option{{Fenced()}, {Reentrant()}} {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meet(t, c)
				nodes[0].refuse(reply, scripts...)
				pairs(t, c, opts...)
				health := c.Nodes()
				assert.ErrorContains(t, health[0].Err, reply[:4])
				assert.False(t, health[0].Suspect, "it answers")
				assert.WithinDuration(t, time.Now(), health[0].Answered, time.Second)
				assert.NoError(t, health[1].Err)
				nodes[0].heal()
				pairs(t, c, opts...)
				assert.NoError(t, c.Nodes()[0].Err)
			})
		}
	}
}

// So is one in quarantine, for as long as that lasts.
func TestQuorumNodesTellWhoHasLostItsData(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}, {Reentrant()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{LongestTTL: time.Hour})
			meet(t, c)
			nodes[0].FlushAll()
			time.Sleep(time.Second)
			pairs(t, c, opts...)
			assert.ErrorContains(t, c.Nodes()[0].Err, "takes no part for 59m")
			time.Sleep(time.Hour)
			assert.NoError(t, c.Nodes()[0].Err, "it is over, whether anybody asks or not")
		})
	}
}

// A renewal that was refused is no trouble any more when the next one is not, though
// nobody asks for a lock.
func TestQuorumNodesTellWhoRefusesRenewals(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		must(t, c.Mutex("k"))
		nodes[0].refuse("READONLY You can't write against a read only replica.", mutexFamily.renew)
		time.Sleep(time.Minute)
		assert.ErrorContains(t, c.Nodes()[0].Err, "READONLY")
		nodes[0].heal()
		time.Sleep(time.Minute)
		assert.NoError(t, c.Nodes()[0].Err)
	})
}

// A lock is taken once, while a node refuses it, and only renewed from then on. The node is well
// again, whatever it had refused.
func TestQuorumNodesTellNoMoreWhoRefusedALock(t *testing.T) {
	for _, reply := range []string{
		"LOADING Redis is loading the dataset in memory",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
	} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{LongestTTL: time.Hour})
			meet(t, c)
			must(t, c.Mutex("early"))
			everywhere()
			nodes[0].refuse(reply, mutexFamily.acquire, takeScript, markScript)
			must(t, c.Mutex("leader", Fenced()))
			time.Sleep(time.Minute)
			assert.ErrorContains(t, c.Nodes()[0].Err, reply[:4], "it renews, and gives no locks")
			nodes[0].heal()
			time.Sleep(time.Minute)
			assert.NoError(t, c.Nodes()[0].Err)
		})
	}
}

// What is wrong with one lock is not the node's fault.
func TestQuorumNodesDoNotTellOfForeignValues(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		nodes[0].Set(newKeys("pair").fence, "foreign")
		must(t, c.Mutex("pair", Fenced()))
		everywhere()
		assert.NoError(t, c.Nodes()[0].Err)
	})
}

// Nor is it that the user may not have a lock of that name; that no names are permitted is.
func TestQuorumNodesDoNotTellOfForbiddenNames(t *testing.T) {
	for name, forbidden := range map[string]func(node int, key string) bool{
		"one name":           func(_ int, key string) bool { return key == "secret" },
		"all keys of a node": func(node int, _ string) bool { return node == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meet(t, c)
				for i, f := range nodes {
					f.set(func() {
						f.before = func(_ context.Context, cmd driver.Command) error {
							if slices.ContainsFunc(cmd.Keys(), func(key string) bool { return forbidden(i, key) }) {
								return driver.NewServerError("NOPERM No permissions to access a key")
							}
							return nil
						}
					})
				}
				must(t, c.Mutex("leader"))
				_, _ = c.Mutex("secret").TryLock(t.Context())
				time.Sleep(time.Minute)
				for _, h := range c.Nodes() {
					if name == "one name" || h.Node != 0 {
						assert.NoError(t, h.Err)
					} else {
						assert.ErrorContains(t, h.Err, "NOPERM")
					}
				}
			})
		})
	}
}

// A node of a Cluster that is taken for a server is none for a quorum.
func TestQuorumRefusesANodeOfACluster(t *testing.T) {
	for _, reply := range []string{
		"CROSSSLOT Keys in request don't hash to the same slot", "MOVED 3999 127.0.0.1:6381", "ASK 3999 127.0.0.1:6381",
	} {
		for _, n := range []int{1, 3} {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				for _, f := range nodes[:n] {
					f.refuse(reply)
				}
				_, err := c.Mutex("k").TryLock(t.Context())
				if n == 1 { // the other two may have said yes before
					synctest.Wait()
					_, err = c.Mutex("other").TryLock(t.Context())
				}
				assert.ErrorIs(t, err, ErrInvalid)
				assert.ErrorContains(t, err, "of the quorum is a Cluster")
			})
		}
	}
}

// A node that has refused a lock is well again once it does what a request for one asks, whoever has the lock: an answer
// that does not tell so is none.
func TestQuorumNodeIsWellOnceItDoesWhatALockNeeds(t *testing.T) {
	var (
		acquire = []call{mutexFamily.acquire.call([]string{"k"}, nil)}
		take    = []call{takeScript.call([]string{"k"}, nil)}
		set     = []call{native("SET", "k", "value", "NX"), native("GET", markerKey)}
		reply   = func(values ...any) []driver.Result { return []driver.Result{{Value: values}} }
	)
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		for what, asked := range map[string]struct {
			calls   []call
			answers []driver.Result
			well    bool
		}{
			"it gives the lock":                 {acquire, reply(int64(1), "5"), true},
			"others have the lock":              {acquire, reply(int64(0)), true},
			"there is something foreign":        {acquire, reply(int64(-2), "list"), false},
			"no answer":                         {acquire, []driver.Result{{Err: errLostReply}}, false},
			"it gives a lock that is free":      {take, reply(int64(1), "5"), true},
			"others have it, as it says first":  {take, reply(int64(0)), false},
			"it was asked too little":           {take, reply(int64(2)), false},
			"it sets the key":                   {set, []driver.Result{{Value: "OK"}, {Value: "1"}}, true},
			"the key is set, and its marker":    {set, []driver.Result{{}, {Value: "1"}}, true},
			"it sets the key, and is another":   {set, []driver.Result{{Value: "OK"}, {Value: "2"}}, false},
			"it sets the key, and has no other": {set, []driver.Result{{Value: "OK"}, {}}, false},
		} {
			n := nodes.client(t, QuorumConfig{}).quorum.nodes[0]
			n.learn("1")
			n.objection.Store(&objection{err: driver.NewServerError("OOM command not allowed"), taking: true})
			n.heed(asked.calls, asked.answers)
			assert.Equal(t, asked.well, n.objection.Load() == nil, what)
		}
	})
}
