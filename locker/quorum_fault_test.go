package locker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// down makes a node refuse connections.
func (f *fakeDeployment) down() {
	refused := driver.NotSent(errors.New("connection refused"))
	f.set(func() {
		f.connectErr = errors.New("connection refused")
		f.before = func(context.Context, driver.Command) error { return refused }
	})
}

// slow makes every request to a node take so long.
func (f *fakeDeployment) slow(d time.Duration) {
	f.set(func() { f.before = wait(d) })
}

// wait makes no timer that is due at once: in a bubble those of several goroutines break the race
// detector, which has one context for all timers of a bubble.
func wait(d time.Duration) func(context.Context, driver.Command) error {
	return func(ctx context.Context, _ driver.Command) error {
		if d <= 0 {
			return nil
		}
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// runs tells whether cmd runs the script.
func (s *script) runs(cmd driver.Command) bool { return slices.Contains(cmd.Args, s.sha()) }

// With a node that is down, the others say whether the lock is held.
func TestQuorumTellsLockedWithoutAMinority(t *testing.T) {
	for _, n := range []int{3, 5} {
		quorumBubble(t, n, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
			_, err := a.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			for i := range n / 2 {
				nodes[i].down()
			}
			for i := n / 2; i < n; i++ {
				nodes[i].slow(time.Millisecond) // the others fail before these answer
			}
			for range 20 {
				_, err = b.Mutex("k").TryLock(t.Context())
				assert.ErrorIs(t, err, ErrLocked)
				assert.NotErrorIs(t, err, ErrUnavailable)
			}
		})
	}
}

// A minority where something foreign stands at the key, ends nobody's wait.
func TestQuorumWaitsBesideAForeignMinority(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		nodes[0].Set("k", "foreign")
		a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		lease, err := a.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		waiting := background(t, b.Mutex("k"))
		require.NoError(t, lease.Unlock(t.Context()))
		assert.NotNil(t, <-waiting)

		nodes[1].Set("other", "foreign")
		nodes[2].Set("other", "foreign")
		_, err = b.Mutex("other").Lock(t.Context())
		assert.ErrorIs(t, err, ErrForeign)
	})
}

// A Bootstrap that stays set costs nothing once the nodes take part.
func TestQuorumBootstrapDoesNotWait(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{Bootstrap: true})
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		nodes[2].hang()
		begun := time.Now()
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		assert.Zero(t, time.Since(begun))
	})
}

// Of several that were refused a connection for good and one whose reply was lost,
// the one may have given the lock.
func TestQuorumIsNotSentOnlyIfNoNodeIs(t *testing.T) {
	refused := driver.NotSent(driver.NewServerError("WRONGPASS invalid username-password pair"))
	notSent := driver.NotSent(errors.New("no route"))
	for _, test := range []struct {
		votes []driver.Result
		want  driver.Outcome
	}{
		// Most have refused, so that the vote as a whole is no; but one may be cast.
		{[]driver.Result{{Err: refused}, {Err: refused}, {Err: errLostReply}}, driver.OutcomeReplied},
		{[]driver.Result{{Err: refused}, {Err: refused}, {Value: int64(1)}}, driver.OutcomeReplied},
		{[]driver.Result{{Err: refused}, {Err: errLostReply}, {Err: errLostReply}}, driver.OutcomeUnknown},
		{[]driver.Result{{Err: refused}, {}, {}}, driver.OutcomeUnknown},
		{[]driver.Result{{Err: notSent}, {Err: notSent}, {Value: int64(1)}}, driver.OutcomeUnknown},
		{[]driver.Result{{Err: refused}, {Err: refused}, {Err: notSent}}, driver.OutcomeNotSent},
	} {
		var b ballot
		for _, r := range test.votes {
			b = append(b, vote{in: r != driver.Result{}, Result: r})
		}
		assert.Equal(t, test.want, driver.OutcomeOf(b.failure()), "%v", test.votes)
	}
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, f := range nodes[:2] {
			f.set(func() { f.connectErr = refused })
		}
		_, err := nodes.client(t, QuorumConfig{}).Mutex("k").TryLock(t.Context())
		require.Error(t, err)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"), "what the third gave is released")
	})
}

// A lost reply does not make a free lock look taken.
func TestQuorumTryLockAfterLostReplies(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}, {Reentrant()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			nodes[0].down()
			nodes[1].set(func() { nodes[1].after = once("EVALSHA", errLostReply) })
			nodes[2].set(func() { nodes[2].after = once("EVALSHA", errLostReply) })
			lease, err := nodes.client(t, QuorumConfig{}).Mutex("k", opts...).TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
			synctest.Wait()
			assert.Zero(t, nodes.holding("k"))
		})
	}
}

// A majority that answers too late has given the lock all the same.
func TestQuorumTryLockAfterLateReplies(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 5 * time.Second})
		for _, f := range nodes {
			first := true
			f.set(func() {
				f.after = func(ctx context.Context, _ driver.Command) error {
					f.mu.Lock()
					late := first
					first = false
					f.mu.Unlock()
					if late {
						return wait(89*time.Millisecond)(ctx, driver.Command{})
					}
					return nil
				}
			})
		}
		lease, err := c.Mutex("k", TTL(200*time.Millisecond)).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// A node that knows a larger token by the second step, of an acquisition that was given up, has them agree on that.
func TestQuorumAgreesOnALargerTokenThatANodeKnowsByNow(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		fence := newKeys("k").fence
		for i, f := range nodes {
			require.NoError(t, f.Set(fence, "800000000000000"+string(rune('1'+i))))
			var once sync.Once
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if mutexFamily.fence.runs(cmd) {
						once.Do(func() { assert.NoError(t, f.Set(fence, "8000000000000100")) })
					}
					return nil
				}
			})
		}
		lease := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", Fenced()))
		assert.EqualValues(t, Token(8000000000000100), lease.Token())
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A round whose second step could not be sent is given up like any other.
func TestQuorumEndsARoundWhoseSecondStepWasNotSent(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for i, f := range nodes {
			f.Set(newKeys("k").fence, "900000000000000"+string(rune('1'+i)))
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if mutexFamily.fence.runs(cmd) {
						return driver.NotSent(errors.New("no route"))
					}
					return nil
				}
			})
		}
		_, err := nodes.client(t, QuorumConfig{}).Mutex("k", Fenced()).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// Nor does a node keep the lock that was asked for it while the others were to agree on a token, and does not hear at
// first that they did not.
func TestQuorumEndsARoundWithoutATokenAtTheNodesThatWereAskedEarly(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		order := c.quorum.order("k")
		others, early := []*fakeDeployment{nodes[order[0]], nodes[order[2]]}, nodes[order[1]]
		early.Set(newKeys("k").fence, "9000000000000000") // so that it takes the script for all cases
		others[1].Set(newKeys("k").fence, "9000000000000005")
		for _, f := range others {
			f.set(func() {
				f.before = func(ctx context.Context, cmd driver.Command) error {
					if mutexFamily.fence.runs(cmd) {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
			})
		}
		var told atomic.Bool
		early.set(func() {
			early.before = func(_ context.Context, cmd driver.Command) error {
				if mutexFamily.giveUp.runs(cmd) && !told.Swap(true) {
					assert.True(t, early.Exists("k"), "it was asked early")
					return errLostReply
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Mutex("k", Fenced()).TryLock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		assert.True(t, told.Load())
		assert.Zero(t, nodes.holding("k"))
	})
}

// A re-entry that has to ask the nodes does not get the token that most of them drew
// for the outer lease, which was granted a larger one.
func TestQuorumReentryHasALargerToken(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		m := nodes.client(t, QuorumConfig{}).Mutex("k", Reentrant(), Fenced(), NoRenewal(), As(NewOwner()))
		nodes[0].Set(newKeys("k").fence, "9000000000000000")
		nodes[2].slow(time.Millisecond)
		outer, err := m.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, Token(9000000000000001), outer.Token())
		time.Sleep(time.Second)
		nodes[2].heal()
		nodes[0].slow(time.Millisecond)
		inner, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NotSame(t, outer.tenure, inner.tenure)
		assert.Greater(t, inner.Token(), outer.Token())
	})
}

// identifiedConn has a run id.
type identifiedConn struct {
	*fakeConn
	describe func() (driver.Topology, error)
}

type identified struct {
	*fakeDeployment
	describe func() (driver.Topology, error)
}

func (c identifiedConn) Describe(context.Context) (driver.Topology, error) { return c.describe() }

func (f identified) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return identifiedConn{conn.(*fakeConn), f.describe}, nil
}

// Two connectors to one server are no two votes, also while it is not known yet that
// they are.
func TestQuorumOfOneServerTwice(t *testing.T) {
	quorumBubble(t, 2, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		var mu sync.Mutex
		silent := true
		id := func(id string) func() (driver.Topology, error) {
			return func() (driver.Topology, error) {
				mu.Lock()
				defer mu.Unlock()
				if silent {
					return driver.Topology{}, errors.New("timeout")
				}
				return driver.Topology{RunID: id}, nil
			}
		}
		a, other := identified{nodes[0], id("a")}, identified{nodes[1], id("b")}
		other.down()
		c, err := NewQuorum([]driver.Connector{a, a, other})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		mu.Lock()
		silent = false
		mu.Unlock()
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "locker: invalid argument: nodes 0 and 1")
		assert.NotContains(t, err.Error(), "locker: locker")
		assert.NotContains(t, err.Error(), "refused", "no server has said so")
		_, err = c.Inspect(t.Context(), "k")
		assert.ErrorIs(t, err, ErrInvalid, "it could not be told who holds it")
		_, err = c.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrInvalid)
	})
}

// A program that was tried with one server for all nodes is told so, and ends at once: a node that
// was found out before it was asked for the lock has nothing to be told.
func TestQuorumOfOneServerThriceClosesAtOnce(t *testing.T) {
	quorumBubble(t, 1, func(t *testing.T, nodes fakeQuorum) {
		decided := make(chan struct{})
		tell := func() (driver.Topology, error) { return driver.Topology{RunID: "a"}, nil }
		late := func() (driver.Topology, error) { <-decided; return tell() }
		c, err := NewQuorum([]driver.Connector{identified{nodes[0], tell}, identified{nodes[0], tell}, identified{nodes[0], late}})
		require.NoError(t, err)
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		close(decided)
		asked := nodes[0].acquires()
		_, err = c.Mutex("other").TryLock(t.Context())
		require.ErrorIs(t, err, ErrInvalid)
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.Zero(t, time.Since(begun))
		assert.Zero(t, asked.Load())
	})
}

// Two answers of one server are no majority of what is held.
func TestQuorumOfOneServerTwiceListsNothing(t *testing.T) {
	quorumBubble(t, 2, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, held := range []string{"", "k"} {
			if held != "" {
				must(t, nodes[0].client(t).Mutex(held))
				must(t, nodes[1].client(t).Mutex(held))
			}
			c, err := NewQuorum([]driver.Connector{nodes[0], nodes[1], nodes[0]})
			require.NoError(t, err)
			defer c.Close()
			for range 2 {
				var all []error
				for found, err := range c.List(t.Context(), "") {
					assert.Empty(t, found)
					all = append(all, err)
				}
				require.Len(t, all, 1)
				assert.ErrorIs(t, all[0], ErrInvalid)
				assert.ErrorContains(t, all[0], "locker: list: invalid argument: nodes 0 and 2 of the quorum are the same server")
			}
		}
	})
}

// A server that must not tell its run id, as where INFO is forbidden, is known by what has been
// written there.
func TestQuorumOfOneServerTwiceThatDoesNotTell(t *testing.T) {
	quorumBubble(t, 2, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		silent := func() (driver.Topology, error) { return driver.Topology{}, nil }
		for _, c := range [][]driver.Connector{
			{identified{nodes[0], silent}, identified{nodes[1], silent}, identified{nodes[0], silent}},
			{nodes[0], nodes[1], nodes[0]}, // by a driver that never asks
		} {
			c, err := NewQuorum(c)
			require.NoError(t, err)
			defer c.Close()
			_, err = c.Mutex("k").TryLock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid)
			assert.ErrorContains(t, err, "nodes 0 and 2 of the quorum are the same server")
			synctest.Wait()
			assert.Zero(t, nodes.holding("k"))
		}
		time.Sleep(labelLife)
		assert.Equal(t, []string{markerKey}, nodes[0].Keys(), "nothing is left")
	})
}

// Where nothing can be known about a server there are locks all the same.
func TestQuorumOfServersThatCannotBeTold(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, f := range nodes {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if cmd.Name() == "SET" && strings.HasPrefix(cmd.Args[1], labelPrefix) {
						return driver.NewServerError("NOPERM this user has no permissions to access one of the keys used as arguments")
					}
					return nil
				}
			})
		}
		meet(t, nodes.client(t, QuorumConfig{}))
	})
}

// While it is not known which server a node is, it has no vote.
func TestQuorumOfServersThatAreNotToldYet(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, name := range []string{"SET", "GET"} {
			for _, f := range nodes[:2] {
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						if cmd.Name() == name && strings.HasPrefix(cmd.Args[1], labelPrefix) {
							return driver.NewServerError("LOADING Redis is loading the dataset in memory")
						}
						return nil
					}
				})
			}
			c := nodes.client(t, QuorumConfig{})
			_, err := c.Mutex("k").TryLock(t.Context())
			assert.ErrorIs(t, err, ErrUnavailable)
			assert.ErrorContains(t, err, "which server it is")
			assert.Zero(t, nodes[:2].holding("k"))
			nodes[0].heal()
			nodes[1].heal()
			meet(t, c)
		}
	})
}

// Servers that turn out to be no quorum after some have given the lock do not keep it.
func TestQuorumOfOneServerTwiceLeavesNothing(t *testing.T) {
	quorumBubble(t, 2, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		id := func(id string, after time.Duration) func() (driver.Topology, error) {
			return func() (driver.Topology, error) { time.Sleep(after); return driver.Topology{RunID: id}, nil }
		}
		a, b := identified{nodes[0], id("a", 0)}, identified{nodes[1], id("b", 0)}
		again := identified{nodes[0], id("a", 100*time.Millisecond)}
		c, err := NewQuorum([]driver.Connector{a, b, again})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// A client whose clock is fast leaves tokens ahead of the nodes' clocks. A node that
// has forgotten them is not asked before they lie behind.
func TestQuorumTokensOutliveTheLossOfANode(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{LongestTTL: 2 * time.Second}, TTL(time.Second))
		var mu sync.Mutex // the nodes share the arguments
		fast := func() {  // the proposals of a client whose clock is fast
			const offer = "9000000000000000"
			for _, f := range nodes {
				f.set(func() {
					f.before = func(_ context.Context, cmd driver.Command) error {
						mu.Lock()
						defer mu.Unlock()
						if at := len(cmd.Args) - 4; mutexFamily.acquire.runs(cmd) && cmd.Args[at] != offer {
							cmd.Args[at] = offer
						}
						return nil
					}
				})
			}
		}
		fast()
		nodes[2].hang()
		first, err := c.Mutex("k", Fenced()).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, first.Unlock(t.Context()))
		for _, f := range nodes {
			f.heal()
		}
		nodes[0].FlushAll()
		nodes[1].hang()
		second, err := c.Mutex("k", Fenced()).Lock(t.Context())
		require.NoError(t, err)
		assert.Greater(t, second.Token(), first.Token())
	})
}

// A bootstrap that comes late makes no node take part that has lost its data since.
func TestQuorumLateBootstrap(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		var mu sync.Mutex
		var late driver.Command
		nodes[0].set(func() {
			nodes[0].before = func(_ context.Context, cmd driver.Command) error {
				mu.Lock()
				defer mu.Unlock()
				if bootScript.runs(cmd) {
					late = driver.Command{Args: slices.Clone(cmd.Args), FirstKey: cmd.FirstKey, NumKeys: cmd.NumKeys}
				}
				return nil
			}
		})
		c := nodes.client(t, QuorumConfig{Bootstrap: true})
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NotEmpty(t, late.Args)
		time.Sleep(time.Second)
		nodes[0].FlushAll()
		conn, err := nodes[0].Connect(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, _ = conn.Do(t.Context(), driver.Command{Args: []string{"SCRIPT", "LOAD", bootScript.source()}})
		_, err = conn.Do(t.Context(), late)
		require.NoError(t, err)
		nodes[1].down()
		_, err = c.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
	})
}

// What is left on nodes that answer is cleaned up, however long another is down, and
// the client does not go on about that one for long.
func TestQuorumCleansUpBesideADeadNode(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		nodes[4].down()
		_, err := nodes.client(t, QuorumConfig{}).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		nodes[0].Del("k")
		c := nodes.client(t, QuorumConfig{})
		for range 100 {
			_, err := c.Mutex("k").TryLock(t.Context())
			require.ErrorIs(t, err, ErrLocked)
		}
		synctest.Wait()
		assert.False(t, nodes[0].Exists("k"))
		time.Sleep(3 * time.Second)
		c.watchdog.mu.Lock()
		assert.Zero(t, c.watchdog.cleanups)
		c.watchdog.mu.Unlock()
		_, err = c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		begun := time.Now()
		assert.NoError(t, c.Close())
		assert.Less(t, time.Since(begun), time.Second)
	})
}

// Behind a node that is slow, but not hung, requests do not pile up.
func TestQuorumBoundsWhatWaitsForASlowNode(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 10 * time.Second})
		nodes[0].slow(time.Millisecond)
		nodes[1].slow(time.Millisecond)
		nodes[2].slow(100 * time.Millisecond)
		end := time.Now().Add(1200 * time.Millisecond)
		most := int32(0)
		var wg sync.WaitGroup
		for i := range 16 {
			wg.Go(func() {
				m := c.Mutex(string(rune('a'+i)), Reentrant()) // all nodes are asked
				for time.Now().Before(end) {
					lease, err := m.Lock(t.Context())
					if assert.NoError(t, err) {
						assert.NoError(t, lease.Unlock(t.Context()))
					}
				}
			})
		}
		for time.Now().Before(end) {
			time.Sleep(time.Millisecond)
			most = max(most, c.quorum.nodes[2].asked.Load())
		}
		wg.Wait()
		assert.LessOrEqual(t, most, int32(maxLate+32))
	})
}

// A foreign value at a minority does not keep ForceRelease from telling what it did.
func TestQuorumForceReleaseBesideAForeignMinority(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		nodes[0].Set("k", "foreign")
		c := nodes.client(t, QuorumConfig{}, Label("me"))
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = c.ForceRelease(ended, "k")
		assert.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		assert.Equal(t, 3, nodes.holding("k"), "nothing is sent under a context that has ended")
		holders, err := c.ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, holders, 1)
		assert.Equal(t, "me", holders[0].Label)
		nodes[1].Set("k", "foreign")
		_, err = c.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrForeign)
	})
}

// A lease that most nodes have forgotten is released at the others.
func TestQuorumUnlockOfALostLeaseLeavesNothing(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		lease, err := nodes.client(t, QuorumConfig{}).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		nodes[0].Del("k")
		nodes[1].Del("k")
		<-lease.Context().Done()
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// The intent of a writer that died keeps readers out for a while. They do not ask all
// the time meanwhile.
func TestQuorumReaderWaitsForTheEndOfAnIntent(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		lease, err := c.Mutex("k", ForReading()).Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		m := c.Mutex("k", ForWriting())
		dead := request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "dead", tail: m.tail, ttl: m.ttl, px: m.px}
		_, _, _, err = c.quorum.acquire(t.Context(), &dead, place{reservation: newID(), life: 4 * time.Second}, try{more: true}, new(taken))
		require.ErrorIs(t, err, ErrLocked)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		nodes[0].reset()
		begun := time.Now()
		_, err = c.Mutex("k", ForReading()).Lock(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, 4*time.Second, time.Since(begun), float64(100*time.Millisecond))
		assert.Less(t, len(nodes[0].commands()), 30)
	})
}

// The time that a driver gives its connections, or a reply, is not the caller's.
func TestQuorumTimeOfADriverIsNotTheCallers(t *testing.T) {
	over := fmt.Errorf("the driver's time is over: %w", context.DeadlineExceeded)
	for name, trouble := range map[string]func(f *fakeDeployment){
		"connecting": func(f *fakeDeployment) { f.connectErr = over },
		"waiting":    func(f *fakeDeployment) { f.before = func(context.Context, driver.Command) error { return over } },
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				if name == "waiting" {
					meet(t, c)
				}
				for _, f := range nodes[:2] {
					f.set(func() { trouble(f) })
				}
				_, err := c.Mutex("k").TryLock(t.Context())
				require.ErrorIs(t, err, ErrUnavailable)
				assert.NotErrorIs(t, err, context.DeadlineExceeded)
				told, _ := errors.AsType[*QuorumError](err)
				require.NotNil(t, told)
				for i := range nodes[:2] {
					require.Error(t, told.Votes[i].Err)
					assert.NotErrorIs(t, told.Votes[i].Err, context.DeadlineExceeded)
					assert.NotErrorIs(t, c.Nodes()[i].Err, context.DeadlineExceeded)
				}
			})
		})
	}
}

// A reader that waits at the nodes is no writer, whatever it is called. It is dead by now.
func TestQuorumReaderThatWaitsKeepsNoOtherReaderOut(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		lease := must(t, c.Mutex("k", ForWriting()))
		everywhere()
		m := nodes.client(t, QuorumConfig{}, Label("W")).Mutex("k", ForReading())
		dead := request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: "dead", tail: m.tail, ttl: m.ttl, px: m.px}
		_, _, _, err := m.client.quorum.acquire(t.Context(), &dead, place{reservation: newID(), life: 4 * time.Second}, try{more: true}, new(taken))
		require.ErrorIs(t, err, ErrLocked)
		waits := 0
		for _, f := range nodes {
			if f.Exists(m.keys.entries) {
				waits++
			}
		}
		require.GreaterOrEqual(t, waits, majority(len(nodes)))
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		must(t, c.Mutex("k", ForReading()))
	})
}
