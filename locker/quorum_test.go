package locker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// everywhere waits until all nodes have been asked for what was taken.
func everywhere() {
	time.Sleep(2 * restPause)
	synctest.Wait()
}

// A fakeQuorum is several embedded servers whose faults a test can set.
type fakeQuorum []*fakeDeployment

func quorumBubble(t *testing.T, n int, test func(t *testing.T, nodes fakeQuorum)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var nodes fakeQuorum
		for range n {
			nodes = append(nodes, newDeployment(t))
		}
		test(t, nodes)
	})
}

func (q fakeQuorum) client(t *testing.T, cfg QuorumConfig, opts ...ClientOption) *Client {
	t.Helper()
	var connectors []driver.Connector
	for _, f := range q {
		connectors = append(connectors, f)
	}
	c, err := NewQuorum(connectors, append(opts, cfg)...)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// established makes the nodes ones that have been there for long.
func (q fakeQuorum) established() {
	for _, f := range q {
		f.Set(markerKey, "1")
		f.SetTTL(markerKey, markerLife)
	}
}

func (q fakeQuorum) holding(key string) int {
	n := 0
	for _, f := range q {
		if f.Exists(key) {
			n++
		}
	}
	return n
}

// hang makes a node swallow all requests.
func (f *fakeDeployment) hang() {
	f.set(func() {
		f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
	})
}

func (f *fakeDeployment) heal() { f.set(func() { f.before, f.after, f.connectErr = nil, nil, nil }) }

func TestQuorumLocksEveryKind(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		for _, opts := range [][]Option{{}, {Fenced()}, {Reentrant()}, {Reentrant(), Fenced()}, {ForWriting()}, {ForWriting(), Fenced()}} {
			lease, err := a.Mutex("k", opts...).Lock(t.Context())
			require.NoError(t, err)
			everywhere()
			assert.Equal(t, 5, nodes.holding("k"))
			_, err = b.Mutex("k", opts...).TryLock(t.Context())
			locked, ok := errors.AsType[*LockedError](err)
			require.True(t, ok, "%v", err)
			assert.InDelta(t, 30*time.Second, locked.Holder.Remaining, float64(time.Second))
			time.Sleep(time.Minute)
			assert.True(t, lease.Valid(), "it is renewed")
			s, err := b.Inspect(t.Context(), "k")
			require.NoError(t, err)
			require.Len(t, s.Holders, 1)
			assert.Equal(t, lease.Mode(), s.Holders[0].Mode)
			require.NoError(t, lease.Unlock(t.Context()))
			synctest.Wait()
			assert.Zero(t, nodes.holding("k"))
			next, err := b.Mutex("k", opts...).TryLock(t.Context())
			require.NoError(t, err)
			if lease.Token() != 0 {
				assert.Greater(t, next.Token(), lease.Token())
			}
			require.NoError(t, next.Unlock(t.Context()))
			synctest.Wait()
		}
	})
}

func TestQuorumReadersShare(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		read, write := c.Mutex("k", ForReading(), Fenced()), c.Mutex("k", ForWriting(), Fenced())
		r1, err := read.Lock(t.Context())
		require.NoError(t, err)
		r2, err := read.Lock(t.Context())
		require.NoError(t, err)
		assert.Zero(t, r1.Token(), "readers of a quorum have no token")
		waiting := background(t, write)
		_, err = read.TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked, "a waiting writer keeps new readers out")
		require.NoError(t, r1.Unlock(t.Context()))
		require.NoError(t, r2.Unlock(t.Context()))
		begun := time.Now()
		w := <-waiting
		assert.Less(t, time.Since(begun), 200*time.Millisecond, "told by a node")
		require.NoError(t, w.Unlock(t.Context()))
	})
}

func TestQuorumToleratesAMinority(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		nodes[0].hang()
		nodes[1].down()
		begun := time.Now()
		for _, opts := range [][]Option{{}, {Fenced()}, {ForWriting()}} {
			lease, err := c.Mutex("k", opts...).Lock(t.Context())
			require.NoError(t, err)
			assert.Zero(t, time.Since(begun), "nobody waits for the minority")
			require.NoError(t, lease.Extend(t.Context(), 40*time.Second))
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assert.Zero(t, time.Since(begun))
	})
}

func TestQuorumWithoutAMajority(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		lease, err := c.Mutex("k", TTL(3*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, f := range nodes[:2] {
			f.hang()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		begun := time.Now()
		_, err = c.Mutex("other").Lock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, 200*time.Millisecond, time.Since(begun))
		_, err = c.Mutex("other").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, ErrLocked)
		vote, ok := errors.AsType[*QuorumError](err)
		require.True(t, ok, "%v", err)
		assert.Len(t, vote.Votes, 3)
		synctest.Wait()
		assert.Zero(t, nodes.holding("other"), "what was taken is released")

		<-lease.Context().Done()
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
		assert.LessOrEqual(t, time.Since(begun), 3*time.Second)
		err = lease.Unlock(t.Context())
		assert.ErrorIs(t, err, ErrUnknown)
		for _, f := range nodes {
			f.heal()
		}
		time.Sleep(time.Minute)
		assert.Zero(t, nodes.holding("k"))
	})
}

func TestQuorumContendersDoNotLivelock(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		var inside atomic.Int32
		var last atomic.Uint64
		var wg sync.WaitGroup
		begun := time.Now()
		for range 4 {
			c := nodes.client(t, QuorumConfig{})
			for range 4 {
				wg.Go(func() {
					for range 3 {
						err := c.Mutex("k", Fenced()).Do(t.Context(), func(ctx context.Context) error {
							assert.EqualValues(t, 1, inside.Add(1))
							lease, _ := FromContext(ctx)
							assert.Greater(t, uint64(lease.Token()), last.Swap(uint64(lease.Token())))
							time.Sleep(time.Millisecond)
							inside.Add(-1)
							return nil
						})
						assert.NoError(t, err)
					}
				})
			}
		}
		wg.Wait()
		t.Log(time.Since(begun))
		assert.Less(t, time.Since(begun), 20*time.Second)
	})
}

// However often they have split the vote, they ask again soon.
func TestQuorumContendersKeepApartForAMomentOnly(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		a := &attempt{client: nodes.client(t, QuorumConfig{}), splits: 100}
		begun := time.Now()
		require.NoError(t, a.backOff(t.Context()))
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// A node that restarts empty takes no part until the longest lease has run out.
func TestQuorumQuarantine(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		cfg := QuorumConfig{LongestTTL: 30 * time.Second}
		a, b := nodes.client(t, cfg), nodes.client(t, cfg)
		nodes[0].hang()
		lease, err := a.Mutex("k", NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		nodes[0].heal()
		nodes[1].FlushAll()
		_, err = b.Mutex("k").TryLock(t.Context())
		require.Error(t, err, "node 1 has forgotten the lease, and with node 0 it would be a majority")
		assert.True(t, lease.Valid())
		<-lease.Context().Done()
		time.Sleep(2 * time.Second)
		begun := time.Now()
		_, err = b.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.Zero(t, time.Since(begun))
	})
}

// For a client with a longer LongestTTL nodes are in quarantine that are younger than that.
func TestQuorumRaisedLongestTTLLeavesOutYoungerNodes(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		for _, f := range nodes {
			f.Set(markerKey, millis(time.Duration(time.Now().UnixNano())))
			f.SetTTL(markerKey, markerLife)
		}
		time.Sleep(time.Hour)
		meet(t, nodes.client(t, QuorumConfig{LongestTTL: 50 * time.Minute}))
		_, err := nodes.client(t, QuorumConfig{LongestTTL: 6 * time.Hour}).Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.ErrorContains(t, err, "takes no part for 5h0m0s more")
	})
}

func TestQuorumOfNewNodes(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{LongestTTL: 30 * time.Second})
		begun := time.Now()
		_, err := c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 30*time.Second, time.Since(begun), float64(2*time.Second))
		require.NoError(t, lease.Unlock(t.Context()))
	})
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{Bootstrap: true})
		_, err := c.Mutex("k").TryLock(t.Context())
		assert.NoError(t, err)
	})
}

// Whoever tries once is told at once that the nodes take no part, whether all are new or one gives
// the lock, and asks each of them once.
func TestQuorumTryLockOfNewNodesDoesNotAskAgain(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}, {ForWriting()}} {
		for name, other := range map[string]func(f *fakeDeployment){
			"all are new": func(*fakeDeployment) {},
			"one is not":  func(f *fakeDeployment) { fakeQuorum{f}.established() },
		} {
			t.Run(name, func(t *testing.T) {
				quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
					other(nodes[0])
					c := nodes.client(t, QuorumConfig{})
					_, _ = c.Mutex("k", opts...).TryLock(t.Context())
					synctest.Wait()
					var asked atomic.Int32
					nodes[1].set(func() {
						nodes[1].before = func(_ context.Context, cmd driver.Command) error {
							if mutexFamily.acquire.runs(cmd) || holdFamily.acquire.runs(cmd) {
								asked.Add(1)
							}
							return nil
						}
					})
					begun := time.Now()
					_, err := c.Mutex("k", opts...).TryLock(t.Context())
					assert.ErrorIs(t, err, ErrUnavailable)
					assert.ErrorContains(t, err, "takes no part for 1m0s more")
					assert.Zero(t, time.Since(begun))
					synctest.Wait()
					assert.LessOrEqual(t, asked.Load(), int32(1))
					assert.Zero(t, nodes.holding("k"))
				})
			})
		}
	}
}

// What a SET has given at nodes that turn out to be new is given back.
func TestQuorumTryLockOfNodesThatTurnOutToBeNew(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		rounds(t, c, 2)
		for _, f := range nodes {
			f.FlushAll()
		}
		begun := time.Now()
		_, err := c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.Less(t, time.Since(begun), 10*time.Millisecond)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

func TestQuorumsThatCannotBe(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for _, n := range []int{0, 1, 2, 4, 17} {
			_, err := NewQuorum(slices.Repeat([]driver.Connector{f}, n))
			assert.ErrorIs(t, err, ErrInvalid, "%d nodes", n)
		}
		for _, longest := range []time.Duration{-1, MinTTL - 1, MaxTTL + 1} {
			_, err := NewQuorum([]driver.Connector{f, f, f}, QuorumConfig{LongestTTL: longest})
			assert.ErrorIs(t, err, ErrInvalid)
			assert.ErrorContains(t, err, "LongestTTL", "%v", longest)
		}
		_, err := NewQuorum([]driver.Connector{f, nil, f})
		assert.ErrorIs(t, err, ErrInvalid)
		_, err = NewQuorum([]driver.Connector{f, f, f}, QuorumConfig{NodeTimeout: -1})
		assert.ErrorIs(t, err, ErrInvalid)
		_, err = New(f, QuorumConfig{})
		assert.ErrorIs(t, err, ErrInvalid)
	})
}

func TestQuorumsAtTheLimits(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for _, quorum := range []struct {
			nodes int
			cfg   QuorumConfig
		}{
			{maxNodes, QuorumConfig{}},
			{3, QuorumConfig{NodeTimeout: time.Millisecond}},
			{3, QuorumConfig{LongestTTL: MinTTL}},
			{3, QuorumConfig{LongestTTL: MaxTTL}},
		} {
			c, err := NewQuorum(slices.Repeat([]driver.Connector{f}, quorum.nodes), quorum.cfg, TTL(MinTTL))
			if assert.NoError(t, err, "%+v", quorum) {
				assert.NoError(t, c.Close())
			}
		}
	})
}

// After LongestTTL a node that was restarted takes part again, which knows of no lease.
func TestQuorumLeasesLastNoLongerThanLongestTTL(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		const longest = time.Minute
		cfg := QuorumConfig{LongestTTL: longest}
		c := nodes.client(t, cfg)
		for _, opt := range []Option{TTL(longest + time.Millisecond), ReadTTL(longest + time.Millisecond)} {
			assert.ErrorIs(t, failureOf(c.Mutex("long", opt).TryLock(t.Context())), ErrInvalid)
			assert.ErrorIs(t, failureOf(NewQuorum([]driver.Connector{nodes[0], nodes[1], nodes[2]}, cfg, opt)), ErrInvalid)
		}
		lease := must(t, c.Mutex("k"))
		for _, ttl := range []time.Duration{longest + time.Millisecond, MaxTTL} {
			assert.ErrorIs(t, lease.Extend(t.Context(), ttl), ErrInvalid)
			assert.ErrorIs(t, failureOf(lease.Detach(t.Context(), ttl)), ErrInvalid)
		}
		assert.True(t, lease.Valid())
		for _, f := range nodes {
			assert.LessOrEqual(t, f.TTL("k"), longest)
		}
		require.NoError(t, lease.Extend(t.Context(), longest))
		require.NoError(t, failureOf(lease.Detach(t.Context(), longest)))
	})
}

// What tells that a node has kept its data lives on while the node is used.
// Where no lease may be as long as the default, that is the default.
func TestQuorumsDefaultTTL(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{LongestTTL: 10 * time.Second, Bootstrap: true})
		assert.Equal(t, 10*time.Second, must(t, c.Mutex("k")).tenure.mutex.ttl)
		_, err := c.Mutex("k", TTL(11*time.Second)).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
	})
}

// Tests of applications make one.
func TestQuorumErrorWithoutReason(t *testing.T) {
	err := &QuorumError{Votes: []Vote{{Answer: "no"}}}
	assert.EqualError(t, err, "locker: no majority (quorum of 1 nodes: node 0: no)")
	assert.NoError(t, err.Unwrap())
}

func TestQuorumMarkerOutlivesUse(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{Bootstrap: true})
		require.NoError(t, c.Mutex("k").Do(t.Context(), func(context.Context) error { return nil }))
		for range 20 {
			time.Sleep(markerLife / 3)
			require.NoError(t, c.Mutex("k").Do(t.Context(), func(context.Context) error { return nil }))
		}
		time.Sleep(markerLife)
		for _, f := range nodes {
			assert.False(t, f.Exists(markerKey))
		}
	})
}

// A node that has lost its data is looked at by the script for all cases soon, which begins
// its quarantine, although all locks are free and given back at once.
func TestQuorumNodeComesBackByFreeLocks(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}} {
		for place := range majority(5) {
			quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{LongestTTL: 30 * time.Second})
				m := client.Mutex("k", opts...)
				for range 3 {
					require.NoError(t, must(t, m).Unlock(t.Context()))
				}
				order := client.quorum.order(m.keys.record)
				lost := nodes[order[place]]
				lost.FlushAll()
				for range 5 {
					time.Sleep(time.Second) // in the same moment it would be offered the same token, which takes that script anyway
					require.NoError(t, must(t, m).Unlock(t.Context()))
				}
				assert.True(t, lost.Exists(markerKey), "place %d", place)
			})
		}
	}
}
