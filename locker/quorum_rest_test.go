package locker

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func (q fakeQuorum) reset() {
	for _, f := range q {
		f.reset()
	}
}

// A lease that is over at once costs a majority of the nodes two requests each, and the
// others none. Without a fence the first of them is a SET, and a GET of the marker.
func TestQuorumShortLease(t *testing.T) {
	for _, kind := range []struct {
		opts     []Option
		commands map[string]int // of a pair
	}{
		{nil, map[string]int{"SET": 3, "GET": 3, "EVALSHA": 3}},
		{[]Option{Fenced()}, map[string]int{"EVALSHA": 6}},
	} {
		quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			names := []string{"a", "b", "c", "d"}
			pairs := func() {
				for _, name := range names {
					require.NoError(t, must(t, c.Mutex(name, kind.opts...)).Unlock(t.Context()))
				}
				time.Sleep(10 * restPause)
				synctest.Wait()
			}
			pairs() // in which the client gets to know the nodes
			pairs()
			nodes.reset()
			pairs()
			sent := map[string]int{}
			for _, f := range nodes {
				for _, name := range f.commands() {
					sent[name]++
				}
			}
			for name, n := range kind.commands {
				assert.Equal(t, n*len(names), sent[name], name)
			}
			assert.Len(t, sent, len(kind.commands))
			for _, name := range names {
				assert.Zero(t, nodes.holding(name))
			}
		})
	}
}

// A SET that a node executed which has lost its data since it was looked at is no vote.
func TestQuorumMarkerIsReadBehindTheSet(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		time.Sleep(time.Second)
		first := c.quorum.order("k")
		nodes[first[0]].FlushAll()
		nodes[first[1]].FlushAll()
		_, err := c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrUnavailable)
		assert.ErrorContains(t, err, "takes no part")
		time.Sleep(time.Second)
		assert.Zero(t, nodes.holding("k"), "what they gave all the same is released")

		// Somebody else has made them ones that have been there for long.
		nodes.established()
		for _, f := range nodes {
			f.Set(markerKey, "2")
		}
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()), "the script is asked")
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		nodes.reset()
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		assert.Contains(t, nodes[first[0]].commands(), "SET", "the markers are known again")
		time.Sleep(2 * DefaultLongestTTL)
		nodes.reset()
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		assert.NotContains(t, nodes[first[0]].commands(), "SET", "a script keeps the marker from running out")
	})
}

// meet lets the client get to know its nodes.
func meet(t *testing.T, c *Client) {
	t.Helper()
	lease, err := c.Mutex("first").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	synctest.Wait()
}

// A majority is asked first; where it does not decide, or takes long, so are the others.
func TestQuorumAsksTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(f *fakeDeployment)
		within  time.Duration
	}{
		"down":   {(*fakeDeployment).down, 0},
		"hung":   {(*fakeDeployment).hang, 2 * minSlowness},
		"slow":   {func(f *fakeDeployment) { f.answersLate(100 * time.Millisecond) }, 2 * minSlowness},
		"locked": {func(f *fakeDeployment) { f.Set("k", record(newID(), millis(time.Minute), "somebody|")) }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{})
				meet(t, client)
				first := client.quorum.order("k")
				c.trouble(nodes[first[0]])
				c.trouble(nodes[first[2]])
				begun := time.Now()
				lease, err := client.Mutex("k").TryLock(t.Context())
				require.NoError(t, err)
				assert.LessOrEqual(t, time.Since(begun), c.within)
				for _, place := range []uint8{first[1], first[3], first[4]} {
					assert.True(t, nodes[place].Exists("k"))
				}
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// Locks share the nodes, and all clients agree which are asked first for one.
func TestQuorumOrder(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		firsts := map[uint8]int{}
		for i := range 100 {
			key := "k" + string(rune('a'+i))
			assert.Equal(t, a.quorum.order(key), b.quorum.order(key))
			firsts[a.quorum.order(key)[0]]++
		}
		assert.Len(t, firsts, 5)
		a.quorum.nodes[firstOf(a, "k")].pace.Store(int64(time.Second))
		slow := firstOf(b, "k")
		assert.Equal(t, slow, a.quorum.order("k")[4], "a slow node comes last")
	})
}

// The others are asked, too, when one of the first takes several times as long as it did before, and long before its time is up.
func TestQuorumAsksTheRestInTime(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		for pace, want := range map[time.Duration]time.Duration{
			0: minSlowness, 10 * time.Millisecond: 40 * time.Millisecond, time.Second: DefaultNodeTimeout / 4,
		} {
			q.nodes[1].pace.Store(int64(pace))
			assert.Equal(t, want, q.slowness(inOrder), "%v", pace)
		}
	})
}

func firstOf(c *Client, key string) uint8 { return c.quorum.order(key)[0] }

// What makes the lease longer makes it so at all nodes.
func TestQuorumExtendAsksTheRest(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		lease := must(t, c.Mutex("k"))
		assert.Equal(t, 3, nodes.holding("k"))
		require.NoError(t, lease.Extend(t.Context(), time.Minute))
		synctest.Wait()
		assert.Equal(t, 5, nodes.holding("k"))
		for _, f := range nodes {
			assert.Greater(t, f.TTL("k"), 50*time.Second)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// A lease that is released before the rest is asked is known to be ours until then, also
// where one of the nodes that gave it does not answer any more, or has lost it.
func TestQuorumReleaseOfAFew(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(f *fakeDeployment)
		want    error
	}{
		"all there": {func(*fakeDeployment) {}, nil},
		"one down":  {(*fakeDeployment).down, nil},
		"one lost":  {func(f *fakeDeployment) { f.Del("k") }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{})
				meet(t, client)
				lease := must(t, client.Mutex("k"))
				c.trouble(nodes[firstOf(client, "k")])
				assert.ErrorIs(t, lease.Unlock(t.Context()), c.want)
			})
		})
	}
}

// A request for the lock that has not gone out when its try has failed never does.
func TestQuorumTryThatFailedSendsNothingMore(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 10 * time.Second, LongestTTL: time.Minute})
		meet(t, c)
		thaw := make(chan struct{})
		var acquired atomic.Int32
		for _, f := range nodes[1:] {
			f.set(func() {
				f.before = func(ctx context.Context, cmd driver.Command) error {
					<-thaw
					if f == nodes[1] && cmd.Name() == "EVALSHA" && cmd.Args[1] == mutexFamily.acquire.sha() {
						acquired.Add(1)
					}
					return nil
				}
			})
		}
		for range 6 {
			_, err := c.Mutex("k", AttemptTimeout(time.Millisecond)).TryLock(t.Context())
			require.ErrorIs(t, err, ErrUnavailable)
		}
		close(thaw)
		synctest.Wait()
		assert.Positive(t, acquired.Load())
		assert.LessOrEqual(t, acquired.Load(), int32(nodeRequests))
	})
}

// Where the small script does not do, nobody is told that the lock is held: it may be free.
func TestQuorumSmallScriptThatDoesNotDo(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(f *fakeDeployment, fence string)
		want    error
	}{
		"a larger token is known": {func(f *fakeDeployment, fence string) {
			f.Set(fence, Token(time.Now().Add(time.Second).UnixMicro()).String())
		}, nil},
		"the nodes have lost their data": {func(f *fakeDeployment, _ string) { f.FlushAll() }, ErrUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{})
				m := client.Mutex("k", Fenced())
				require.NoError(t, must(t, m).Unlock(t.Context()))
				time.Sleep(time.Second)
				for _, f := range nodes {
					c.trouble(f, m.keys.fence)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				lease, err := m.Lock(ctx)
				assert.NotErrorIs(t, err, ErrLocked)
				if c.want != nil {
					require.ErrorIs(t, err, c.want)
					return
				}
				require.NoError(t, err)
				client.hub.mu.Lock()
				waited := client.hub.running
				client.hub.mu.Unlock()
				assert.False(t, waited, "as if somebody held the lock")
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// A node hangs while a lease is in force that only a majority was asked for. The others that
// have it and those that have not are a majority again: who gives it up waits for no more.
func TestQuorumUnlockOfAShortLeaseDoesNotWaitForAMinority(t *testing.T) {
	for _, n := range []int{3, 5} {
		for name, trouble := range map[string]func(f *fakeDeployment){"hung": (*fakeDeployment).hang, "down": (*fakeDeployment).down} {
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				quorumBubble(t, n, func(t *testing.T, nodes fakeQuorum) {
					nodes.established()
					c, other := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
					meet(t, c)
					meet(t, other)
					lease := must(t, c.Mutex("k"))
					order := c.quorum.order("k")
					for _, place := range order[:n/2] {
						trouble(nodes[place])
					}
					begun := time.Now()
					require.NoError(t, lease.Unlock(t.Context()))
					assert.Zero(t, time.Since(begun))
					next, err := other.Mutex("k").TryLock(t.Context())
					require.NoError(t, err, "it is free")
					require.NoError(t, next.Unlock(t.Context()))
				})
			})
		}
	}
}

// A lease has run out before the rest of the nodes was asked for it, as the machine stood still.
// One node is late to forget it, and another one is among those that gave the lock to others.
func TestQuorumUnlockOfALapsedLeaseAsksTheRest(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c, other := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		meet(t, c)
		meet(t, other)
		order := c.quorum.order("k")
		lease := must(t, c.Mutex("k", TTL(time.Second), NoRenewal()))
		lease.tenure.rest.drop()
		nodes[order[0]].SetTTL("k", time.Minute)
		nodes[order[1]].slow(time.Millisecond) // the first says yes before
		time.Sleep(2 * time.Second)
		next := must(t, other.Mutex("k"))
		everywhere()
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrTaken)
		assert.True(t, next.Valid())
		require.NoError(t, next.Unlock(t.Context()))
	})
}

// What most nodes have said of a lease stays so, though the first request of its release is not answered.
func TestQuorumUnlockOfALeaseThatIsLostSaysSoAfterALostReply(t *testing.T) {
	for _, lost := range []error{ErrTaken, ErrAbsent} {
		t.Run(lost.Error(), func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c, other := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
				meet(t, c)
				meet(t, other)
				lease := must(t, c.Mutex("k"))
				everywhere()
				for _, n := range nodes {
					n.Del("k")
				}
				if lost == ErrTaken {
					must(t, other.Mutex("k"))
					everywhere()
				}
				require.ErrorIs(t, lease.Extend(t.Context(), time.Minute), lost)
				for _, n := range nodes {
					var once atomic.Bool
					n.set(func() {
						n.after = func(_ context.Context, cmd driver.Command) error {
							if cmd.Args[1] == mutexFamily.release.sha() && once.CompareAndSwap(false, true) {
								return errLostReply
							}
							return nil
						}
					})
				}
				assert.ErrorIs(t, lease.Unlock(t.Context()), lost)
			})
		})
	}
}

// A node of the first majority is asked too little, since its counter is ahead, and says so before the others decide, or
// later. The lease stands there all the same soon.
func TestQuorumANodeThatWasAskedTooLittleIsAskedAgain(t *testing.T) {
	for n, late := range map[int]time.Duration{3: 2 * minSlowness, 5: 0} {
		quorumBubble(t, n, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			meet(t, c)
			rounds(t, c, 2, Fenced())
			m, first := c.Mutex("k", Fenced()), c.quorum.order("k")[0]
			ahead := func() {
				nodes[first].Set(m.keys.fence, strconv.FormatInt(time.Now().Add(10*time.Millisecond).UnixMicro(), 10))
				nodes[first].SetTTL(m.keys.fence, time.Hour)
			}
			ahead()
			nodes[first].answersLate(late)
			lease := must(t, m)
			time.Sleep(soonAgain)
			nodes[first].heal()
			assert.Equal(t, n, nodes.holding("k"), "it answers after %v", late)
			require.NoError(t, lease.Unlock(t.Context()))
			synctest.Wait()
			assert.Zero(t, nodes.holding("k"))

			ahead()
			lease = must(t, m)
			require.NoError(t, lease.Unlock(t.Context()))
			everywhere()
			assert.Zero(t, nodes.holding("k"), "it is not asked when the lease is over")
		})
	}
}
