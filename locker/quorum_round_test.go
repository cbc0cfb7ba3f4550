package locker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// The nodes have given the lock, and the client does not hear it. Asking again it must
// not take its own hold for somebody else's.
func TestQuorumLostRepliesOfAMajority(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		require.NoError(t, must(t, c.Mutex("warm")).Unlock(t.Context()))
		synctest.Wait()
		for _, opts := range [][]Option{{}, {Fenced()}, {Reentrant(), Fenced()}, {ForWriting()}} {
			for _, f := range nodes[:3] {
				f.set(func() { f.after = once("EVALSHA", errLostReply) })
			}
			lease, err := c.Mutex("k", opts...).TryLock(t.Context())
			require.NoError(t, err)
			assert.True(t, lease.Valid())
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(time.Second)
			assert.Zero(t, nodes.holding("k"))
		}
	})
}

// An orphan on one node and a lost reply of another: the lock is free, and asking again
// shows that.
func TestQuorumLostReplyBesideAnOrphan(t *testing.T) {
	for _, opts := range [][]Option{{}, {Fenced()}, {Reentrant()}, {ForWriting()}, {ForReading()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			require.NoError(t, must(t, c.Mutex("warm")).Unlock(t.Context()))
			writer := append(opts[:len(opts):len(opts)], ForWriting())
			if c.Mutex("k", opts...).mode != modeRead {
				writer = opts
			}
			must(t, c.Mutex("k", writer...))
			synctest.Wait()
			nodes[1].Del("k")
			nodes[2].Del("k")
			nodes[2].set(func() { nodes[2].after = once("EVALSHA", errLostReply) })
			lease, err := c.Mutex("k", append(opts[:len(opts):len(opts)], As(NewOwner()))...).TryLock(t.Context())
			require.NoError(t, err)
			assert.True(t, lease.Valid())
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func must(t *testing.T, m *Mutex) *Lease {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	require.NoError(t, err)
	return lease
}

// That a lock is held is not confused with too few nodes answering, however soon a
// node that is down says so.
func TestQuorumWaitsUntilItKnowsWhyNot(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		must(t, a.Mutex("k"))
		require.NoError(t, must(t, b.Mutex("warm")).Unlock(t.Context()))
		synctest.Wait()
		nodes[0].set(func() { nodes[0].before = fails })
		nodes[1].answersLate(10 * time.Millisecond)
		nodes[2].answersLate(20 * time.Millisecond)
		_, err := b.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		assert.NotErrorIs(t, err, ErrUnavailable)
		nodes[3].set(func() { nodes[3].before = fails })
		nodes[4].set(func() { nodes[4].before = fails })
		_, err = b.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		assert.NotErrorIs(t, err, ErrLocked)
	})
}

func fails(context.Context, driver.Command) error { return errLostReply }

// answersLate makes a node answer late.
func (f *fakeDeployment) answersLate(d time.Duration) {
	f.set(func() {
		f.after = func(context.Context, driver.Command) error { time.Sleep(d); return nil }
	})
}

// A round that failed does not stand in the way of the next one, though the cleanup that
// cleans up after it has to wait for nodes that are down.
func TestQuorumRoundThatFailedIsOverBeforeTheNext(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		require.NoError(t, must(t, c.Mutex("warm")).Unlock(t.Context()))
		synctest.Wait()
		for _, f := range nodes[2:] {
			f.hang()
		}
		m := c.Mutex("k", AttemptTimeout(100*time.Millisecond))
		for range 8 {
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrUnavailable)
			require.Zero(t, nodes.holding("k"), "what was taken is released")
		}
		nodes[2].heal()
		begun := time.Now()
		lease, err := m.TryLock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), 2*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Whoever unlocks and closes leaves nothing behind, also not on the nodes that answer
// later than the others.
func TestQuorumCloseLetsReleasesArrive(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		lease := must(t, c.Mutex("k"))
		synctest.Wait()
		nodes[0].set(func() {
			nodes[0].before = func(context.Context, driver.Command) error { time.Sleep(50 * time.Millisecond); return nil }
		})
		nodes[1].hang()
		require.NoError(t, lease.Unlock(t.Context()))
		begun := time.Now()
		require.NoError(t, c.Close())
		assert.LessOrEqual(t, time.Since(begun), DefaultNodeTimeout)
		assert.Equal(t, 1, nodes.holding("k"), "but the one that hangs")
	})
}

// The caller has given up, and the nodes' replies to that are lost while the client is
// being closed.
func TestQuorumCloseEndsARoundThatWasGivenUp(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		require.NoError(t, must(t, c.Mutex("warm")).Unlock(t.Context()))
		synctest.Wait()
		healed := time.Now().Add(50 * time.Millisecond)
		for _, f := range nodes {
			f.set(func() {
				f.after = func(context.Context, driver.Command) error {
					if time.Now().After(healed) {
						return nil
					}
					time.Sleep(30 * time.Millisecond)
					return errLostReply
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		_, err := c.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, c.Close())
		assert.Zero(t, nodes.holding("k"))
	})
}

// What was asked of a node while it was needed does not let requests pile up behind it
// when it is not any more.
func TestQuorumRequestsDoNotPileUpAfterAMajorityWasDown(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: time.Minute})
		require.NoError(t, must(t, c.Mutex("warm")).Unlock(t.Context()))
		synctest.Wait()
		nodes[0].hang()
		nodes[1].hang()
		for range 2 * patience {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := c.Mutex("k").TryLock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			cancel()
		}
		time.Sleep(time.Hour) // all of that is over
		nodes[1].heal()
		before := c.quorum.nodes[0].asked.Load()
		assert.Zero(t, before)
		for range 4 * patience {
			lease, err := c.Mutex("k").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		assert.LessOrEqual(t, c.quorum.nodes[0].asked.Load(), int32(maxProbes))
	})
}

// stop makes a node answer nothing until what it returns is called.
func (f *fakeDeployment) stop() (resume func()) {
	running := make(chan struct{})
	f.set(func() {
		f.before = func(ctx context.Context, _ driver.Command) error {
			select {
			case <-running:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	return func() { close(running) }
}

// spare makes c pass over a node that hangs.
func spare(t *testing.T, c *Client, node int) {
	t.Helper()
	require.NoError(t, must(t, c.Mutex("first", Reentrant())).Unlock(t.Context())) // asks all nodes
	time.Sleep(c.quorum.cfg.NodeTimeout * 5 / 8)
	for i := 0; !c.Nodes()[node].Suspect || c.quorum.nodes[node].asked.Load() < maxProbes; i++ {
		require.Less(t, i, 20*patience)
		require.NoError(t, must(t, c.Mutex(fmt.Sprint("other", i))).Unlock(t.Context()))
	}
}

// What a lost release has left at two of five nodes, and a suspect one that is passed
// over, do not make a lock held that nobody has: that one decides.
func TestQuorumTryLockAsksTheSuspectNodeThatDecides(t *testing.T) {
	for _, kind := range []struct {
		name string
		opts []Option
	}{{"plain", nil}, {"fenced", []Option{Fenced()}}, {"owned", []Option{Reentrant(), Fenced()}}} {
		for _, resumes := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, it resumes: %t", kind.name, resumes), func(t *testing.T) {
				quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
					nodes.established()
					c := nodes.client(t, QuorumConfig{NodeTimeout: time.Second})
					meet(t, c)
					lease := must(t, nodes[:3].client(t, QuorumConfig{NodeTimeout: time.Second}).Mutex("k", append(kind.opts, NoRenewal(), TTL(DefaultLongestTTL))...))
					everywhere()
					nodes[2].Del("k")
					resume := nodes[4].stop()
					spare(t, c, 4)
					require.True(t, lease.Valid())

					begun := time.Now()
					tried := make(chan error)
					go func() {
						_, err := c.Mutex("k", kind.opts...).TryLock(t.Context())
						tried <- err
					}()
					synctest.Wait()
					if resumes {
						resume()
						require.NoError(t, <-tried)
						assert.Equal(t, begun, time.Now())
						return
					}
					assert.ErrorIs(t, <-tried, ErrLocked)
					assert.LessOrEqual(t, time.Since(begun), time.Second)
					assert.GreaterOrEqual(t, time.Since(begun), time.Second/2, "it is waited for")
				})
			})
		}
	}
}

// Whoever tries again anyway does not wait for a node that hangs.
func TestQuorumLockDoesNotWaitForASuspectNode(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: 10 * time.Second})
		meet(t, c)
		nodes[4].hang()
		spare(t, c, 4)
		const ttl = time.Second // of what is left at two nodes
		for _, f := range nodes[:2] {
			f.Set("k", record(newID(), millis(time.Minute), "somebody|"))
			f.SetTTL("k", ttl)
		}
		begun := time.Now()
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.Less(t, time.Since(begun), ttl+ttl/2, "one request for which it is waited takes longer")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// leftover puts at a node what somebody has given up and is still there.
func (f *fakeDeployment) leftover(t *testing.T, key string, ttl time.Duration) {
	t.Helper()
	require.NoError(t, f.Set(key, "gl1|m|"+newID()+"|0|30000|somebody|"))
	f.SetTTL(key, ttl)
}

// What several callers have left at one node each is nobody's lock. It goes within a moment,
// and TryLock does not take it for an answer.
func TestQuorumTryLockDoesNotTakeASplitForAnAnswer(t *testing.T) {
	for _, tries := range []func(*Mutex, context.Context) (*Lease, error){
		(*Mutex).TryLock,
		func(m *Mutex, ctx context.Context) (*Lease, error) {
			return m.client.Mutex(m.name, Retry(Attempts(1, Constant(time.Millisecond)))).Lock(ctx)
		},
	} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			meet(t, c)
			nodes[0].leftover(t, "k", time.Millisecond)
			nodes[1].leftover(t, "k", time.Millisecond)
			lapse := func() {
				for _, f := range nodes[:2] {
					f.FastForward(time.Millisecond)
				}
			}
			go func() {
				time.Sleep(time.Millisecond)
				lapse()
			}()
			lease, err := tries(c.Mutex("k"), t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestQuorumTryLockAsksAgainOnlyWhereTheVoteIsSplit(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		var said error
		asked := func(m *Mutex) (int, time.Duration) {
			t.Helper()
			n := 0
			nodes[0].set(func() {
				nodes[0].before = func(_ context.Context, cmd driver.Command) error {
					if cmd.Name() == "EVALSHA" && cmd.Args[1] == mutexFamily.acquire.sha() {
						n++
					}
					return nil
				}
			})
			begun := time.Now()
			_, said = m.TryLock(t.Context())
			took := time.Since(begun)
			require.ErrorIs(t, said, ErrLocked)
			synctest.Wait()
			return n, took
		}
		held := must(t, nodes.client(t, QuorumConfig{}).Mutex("held"))
		time.Sleep(2 * restPause)
		once, took := asked(c.Mutex("held"))
		assert.Zero(t, took, "a majority has given it to somebody")
		assert.ErrorContains(t, said, "is locked by")
		assert.LessOrEqual(t, once, 1)

		nodes[0].leftover(t, "split", time.Minute)
		nodes[1].leftover(t, "split", time.Minute)
		often, took := asked(c.Mutex("split"))
		assert.GreaterOrEqual(t, often, mostRounds)
		assert.ErrorContains(t, said, "nor says who holds it")
		assert.Less(t, took, 300*time.Millisecond, "not for long")
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := c.Mutex("split").TryLock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorIs(t, err, ErrLocked, "as far as it knew")
		again, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err = c.Mutex("split", Retry(Attempts(1, Constant(time.Millisecond)))).Lock(again)
		waited, _ := errors.AsType[*WaitError](err)
		require.NotNil(t, waited)
		_, twice := errors.AsType[*WaitError](waited.Reason)
		assert.False(t, twice, "%v", err)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// A node that is new is no reason not to ask those again whose replies were lost.
func TestQuorumAsksAgainBesideANewNode(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		nodes[0].FlushAll()
		for _, f := range nodes[1:] {
			var lost atomic.Bool
			f.set(func() {
				f.before = func(ctx context.Context, _ driver.Command) error {
					if lost.CompareAndSwap(false, true) {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
			})
		}
		_, err := c.Mutex("k", AttemptTimeout(200*time.Millisecond)).TryLock(t.Context())
		assert.NoError(t, err)
	})
}

// A TryLock that the script for all cases has told who holds the lock does not ask again.
func TestQuorumAsksOnceWhoHoldsTheLock(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c, other := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		meet(t, c)
		must(t, other.Mutex("k"))
		everywhere()
		time.Sleep(2 * DefaultLongestTTL) // so that the markers are to be looked at
		var asked atomic.Int32
		for _, f := range nodes {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if mutexFamily.acquire.runs(cmd) {
						asked.Add(1)
					}
					return nil
				}
			})
		}
		_, err := c.Mutex("k").TryLock(t.Context())
		require.ErrorIs(t, err, ErrLocked)
		synctest.Wait()
		assert.LessOrEqual(t, asked.Load(), int32(3))
	})
}

// Renewals are put to the nodes together. That one is decided leaves no other one without an answer.
func TestQuorumWaitsForTheAnswersToAllThatItAsksAtOnce(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		leases := []*Lease{must(t, c.Mutex("a")), must(t, c.Mutex("b"))}
		everywhere()
		nodes[1].Del("a")
		nodes[2].answersLate(10 * time.Millisecond) // and tells who has it
		for _, r := range c.quorum.runBatch(t.Context(), renewCalls(leases, time.Minute)) {
			assert.Equal(t, driver.Result{Value: int64(1)}, r)
		}
	})
}

// What a node has answered stays its answer when the time of the others is up, and nothing is shown, or asked, after
// the end: who has asked reads the ballot then.
func TestRoundEnds(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		yes, tooLate := []driver.Result{{Value: int64(1)}}, errors.New("too late")
		for _, test := range []struct {
			end     error
			decides bool
			shown   int
		}{{tooLate, false, 3}, {nil, false, 1}, {tooLate, true, 1}} {
			c := nodes.client(t, QuorumConfig{})
			ballot, shown := make(ballot, 3), 0
			r := newRound(c.quorum, question{calls: []call{native("GET", "k")}}, func(node int, answers []driver.Result) bool {
				assert.False(t, ballot[node].in, "node %d is shown twice", node)
				ballot[node] = vote{in: true, Result: answers[0]}
				shown++
				return test.decides
			})
			r.mu.Lock()
			r.begun, r.asked = 1, only(0)|only(1) // but for the requests
			r.mu.Unlock()
			r.hear(0, yes)
			r.end(test.end)
			assert.Len(t, r.done, 1)
			r.hear(1, yes)
			r.askRest()
			r.end(tooLate)
			assert.Equal(t, test.shown, shown)
			assert.NoError(t, ballot[0].Err)
			assert.False(t, r.asked.has(2))
			assert.Len(t, r.done, 1)
		}
	})
}

// Several calls go out together, and none of them concerns a node.
func TestQuorumCallsThatDoNotConcernANodeAreDecidedByTheOthers(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		var calls []call
		for _, name := range []string{"a", "b"} {
			lease := must(t, c.Mutex(name))
			everywhere()
			release := c.store.releaseCall(lease.mutex, lease.tenure.id, "", 0)
			release.clear = only(2)
			calls = append(calls, release)
		}
		nodes[2].reset()
		for _, r := range c.quorum.runBatch(t.Context(), calls) {
			assert.NoError(t, r.Err)
			assert.Equal(t, int64(1), r.Value)
		}
		synctest.Wait()
		assert.Empty(t, nodes[2].commands())
	})
}
