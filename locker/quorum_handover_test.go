package locker

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// Whoever waits has the lock soon after it was released, however many wait with it: those
// that were told at once and came too late do not hold back for longer and longer.
func TestQuorumHandsOverSoon(t *testing.T) {
	withoutRaceDetector(t)
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, f := range nodes {
			delay := func(ctx context.Context, cmd driver.Command) error {
				return wait(100*time.Microsecond+rand.N(400*time.Microsecond))(ctx, cmd)
			}
			f.set(func() { f.before, f.after = delay, delay })
		}
		var mu sync.Mutex
		var gaps []time.Duration
		var released time.Time
		var wg sync.WaitGroup
		for range 4 {
			c := nodes.client(t, QuorumConfig{})
			for range 3 {
				wg.Go(func() {
					for range 8 {
						lease, err := c.Mutex("k").Lock(t.Context())
						if !assert.NoError(t, err) {
							return
						}
						mu.Lock()
						gaps = append(gaps, time.Since(released))
						mu.Unlock()
						time.Sleep(2 * time.Millisecond)
						mu.Lock()
						released = time.Now()
						mu.Unlock()
						assert.NoError(t, lease.Unlock(t.Context()))
					}
				})
			}
		}
		wg.Wait()
		gaps = gaps[1:]
		slices.Sort(gaps)
		n := len(gaps)
		t.Logf("median %v, 95%% %v, all %v; %d requests", gaps[n/2], gaps[n*95/100], gaps[n-1], len(nodes[0].commands())/n)
		assert.Less(t, gaps[n-1], 200*time.Millisecond)
	})
}

// A node that the lease had not come to, or that has forgotten it, does not make a lease that
// somebody has taken up one that nobody has.
func TestQuorumAttachSaysTakenThoughANodeHasNothing(t *testing.T) {
	for without := range 3 {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
			lease := must(t, a.Mutex("k"))
			time.Sleep(2 * restPause)
			id, err := lease.Detach(t.Context(), DefaultTTL)
			require.NoError(t, err)
			synctest.Wait()
			_, err = b.Mutex("k").Attach(t.Context(), id)
			require.NoError(t, err)
			synctest.Wait()
			nodes[without].Del("k")
			_, err = a.Mutex("k").Attach(t.Context(), id)
			assert.ErrorIs(t, err, ErrTaken, "node %d has nothing", without)
		})
	}
}

// The counters of nodes that have lost their data may be behind, also where such a node has the
// detached lease: SET does not ask.
func TestQuorumAttachDrawsNoTokenInQuarantine(t *testing.T) {
	for name, test := range map[string]struct {
		take, attach []Option
		draws        bool
	}{
		"mutex":                     {nil, []Option{Fenced()}, true},
		"fenced before":             {[]Option{Fenced()}, nil, true},
		"writer":                    {[]Option{ForWriting(), Fenced()}, []Option{ForWriting(), Fenced()}, true},
		"reentrant":                 {[]Option{Reentrant()}, []Option{Reentrant(), Fenced()}, true},
		"mutex without tokens":      {nil, nil, false},
		"reader":                    {[]Option{ForReading(), Fenced()}, []Option{ForReading(), Fenced()}, false},
		"reentrant, without tokens": {[]Option{Reentrant()}, []Option{Reentrant()}, false},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{LongestTTL: 5 * time.Minute})
				meet(t, c)
				lease := must(t, c.Mutex("k", test.take...))
				everywhere()
				id, err := lease.Detach(t.Context(), 5*time.Minute)
				require.NoError(t, err)
				synctest.Wait()
				for _, f := range nodes[1:] {
					f.Set(markerKey, millis(time.Duration(time.Now().UnixNano())))
				}
				_, err = c.Mutex("k", test.attach...).Attach(t.Context(), id)
				if !test.draws {
					require.NoError(t, err)
					return
				}
				assert.ErrorIs(t, err, ErrUnavailable)
				assert.ErrorContains(t, err, "takes no part for")
				synctest.Wait()
				nodes.established()
				taken, err := c.Mutex("k", test.attach...).Attach(t.Context(), id)
				require.NoError(t, err, "it was there all the time")
				assert.Greater(t, taken.Token(), lease.Token())
			})
		})
	}
}

// The same where it is a SET that has given the lock to the node.
func TestQuorumAttachWhereANodeWasGivenTheLockInQuarantine(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		x, y := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		meet(t, x)
		rounds(t, x, 2)
		name := "0"
		for i := 1; x.quorum.order(name)[2] != 2; i++ {
			name = strconv.Itoa(i)
		}
		// Nodes 0 and 1 have granted it to a client whose clock is fast, by less than the slack.
		m, offer := x.Mutex(name, Fenced()), x.quorum.offer()
		offer[0] = strconv.FormatInt(time.Now().Add(4900*time.Millisecond).UnixMicro(), 10)
		r := &request{name: name, keys: &m.keys, mode: m.mode, id: newID(), tail: m.tail, ttl: m.ttl, px: m.px, fenced: true}
		var before Token
		for _, n := range x.quorum.nodes[:2] {
			v, err := n.run(t.Context(), acquireCall(r, place{}, "1", offer))
			require.NoError(t, err)
			before, _, err = r.acquired(v)
			require.NoError(t, err)
			_, err = n.run(t.Context(), x.store.releaseCall(m, r.id, "", 0))
			require.NoError(t, err)
		}
		nodes[1].FlushAll()
		lease := must(t, x.Mutex(name))
		everywhere()
		require.True(t, nodes[1].Exists(name), "it has no vote, and the lock all the same")
		id, err := lease.Detach(t.Context(), 20*time.Second)
		require.NoError(t, err)
		synctest.Wait()
		nodes[0].down()
		_, err = y.Mutex(name, Fenced()).Attach(t.Context(), id)
		assert.ErrorIs(t, err, ErrUnavailable)
		synctest.Wait()
		nodes[0].heal()
		taken, err := y.Mutex(name, Fenced()).Attach(t.Context(), id)
		require.NoError(t, err)
		assert.Greater(t, taken.Token(), before)
	})
}

// A node that has nothing of a detached lease, and says so once the others have given it, is not asked for it again:
// there is nothing to take up.
func TestQuorumNodeWithoutTheDetachedLeaseIsNotAskedAgain(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		a, b := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		mustPair(t, b.Mutex("warm"))
		lease := must(t, a.Mutex("k"))
		everywhere()
		id, err := lease.Detach(t.Context(), DefaultTTL)
		require.NoError(t, err)
		nodes[2].Del("k")
		nodes[2].set(func() {
			nodes[2].before = func(_ context.Context, cmd driver.Command) error {
				if mutexFamily.attach.runs(cmd) {
					time.Sleep(10 * time.Millisecond)
				}
				return nil
			}
		})
		taken, err := b.Mutex("k").Attach(t.Context(), id)
		require.NoError(t, err)
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		nodes[2].reset()
		time.Sleep(5 * againPause)
		assert.NoError(t, taken.Err())
		assert.Empty(t, nodes[2].commands())
		assert.False(t, nodes[2].Exists("k"))
	})
}

// Unlock after Detach leaves the lease where it is.
func TestQuorumUnlockAfterDetachReleasesNothing(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		m := nodes.client(t, QuorumConfig{}).Mutex("k")
		lease := must(t, m)
		everywhere()
		id, err := lease.Detach(t.Context(), 20*time.Second)
		require.NoError(t, err)
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrReleased)
		everywhere()
		assert.Equal(t, 3, nodes.holding("k"))
		_, err = m.Attach(t.Context(), id)
		assert.NoError(t, err)
	})
}

// Readers of a quorum have no token, however they came by the lease: that of the last writer would not be known to be
// the last one.
func TestQuorumReaderThatTakesALeaseUpHasNoToken(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		mustPair(t, c.Mutex("k", ForWriting(), Fenced()))
		read := c.Mutex("k", ForReading(), Fenced())
		id, err := must(t, read).Detach(t.Context(), DefaultTTL)
		require.NoError(t, err)
		taken, err := read.Attach(t.Context(), id)
		require.NoError(t, err)
		assert.Zero(t, taken.Token())
	})
}

// The nodes draw different tokens for who takes a lease up. What it has is known to most of them, so that whoever has the
// lock next has a larger one, also where the node that drew it is down.
// Whoever takes a lease up is its owner, and takes the lock again by it.
func TestQuorumOwnerOfALeaseThatIsTakenUpReenters(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		lease := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", Reentrant()))
		everywhere()
		id, err := lease.Detach(t.Context(), DefaultTTL)
		require.NoError(t, err)
		m := nodes.client(t, QuorumConfig{}).Mutex("k", Reentrant())
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		again, err := m.TryLock(taken.Context())
		require.NoError(t, err)
		require.NoError(t, again.Unlock(t.Context()))
		require.NoError(t, taken.Unlock(t.Context()))
	})
}

func TestQuorumNodesAgreeOnTheTokenOfWhoTakesALeaseUp(t *testing.T) {
	for kind, opts := range map[string][]Option{"mutex": {Fenced()}, "writer": {ForWriting(), Fenced()}} {
		t.Run(kind, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				m := nodes.client(t, QuorumConfig{}).Mutex("k", opts...)
				lease := must(t, m)
				everywhere()
				id, err := lease.Detach(t.Context(), DefaultTTL)
				require.NoError(t, err)
				synctest.Wait()
				ahead := Token(time.Now().Add(time.Minute).UnixMicro()).String()
				require.NoError(t, nodes[0].Set(m.keys.fence, ahead)) // as of an acquisition that was given up
				nodes[2].late(isAttach)
				taken, err := m.Attach(t.Context(), id)
				require.NoError(t, err)
				nodes[2].heal()
				require.Greater(t, taken.Token().String(), ahead)
				require.NoError(t, taken.Unlock(t.Context()))
				synctest.Wait()
				nodes[0].down()
				assert.Greater(t, must(t, m).Token(), taken.Token())
			})
		})
	}
}
