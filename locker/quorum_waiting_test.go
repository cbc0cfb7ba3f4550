package locker

import (
	"context"
	"fmt"
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

// told bounds how long somebody who is told that the lock is free takes to have it.
const told = 100 * time.Millisecond

// All readers that wait are told when the writer leaves, and the writers behind them are not
// kept waiting by those who do not wait any more.
func TestQuorumReadersAreLetInTogether(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		writer := must(t, c.Mutex("k", ForWriting()))
		var waiting []<-chan *Lease
		for range 5 {
			waiting = append(waiting, background(t, nodes.client(t, QuorumConfig{}).Mutex("k", ForReading())))
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, writer.Unlock(t.Context()))
		begun := time.Now()
		for _, w := range waiting {
			assert.NotNil(t, <-w)
		}
		assert.Less(t, time.Since(begun), told)
	})
}

// The first lock that a client gets waits until all nodes have said who they are. One that has not while the lock was
// waited for is not waited for once more.
func TestQuorumFirstWaiterIsToldBesideAHungNode(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}, {ForWriting()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			lease := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", opts...))
			everywhere()
			nodes[2].hang()
			waiting := background(t, nodes.client(t, QuorumConfig{}).Mutex("k", opts...))
			time.Sleep(time.Second)
			require.NoError(t, lease.Unlock(t.Context()))
			begun := time.Now()
			assert.NotNil(t, <-waiting)
			assert.Less(t, time.Since(begun), told)
		})
	}
}

// Contenders that split the vote of the nodes that answer would all wait for those that hang, with what they have taken, and
// split it again.
func TestQuorumWaiterHoldsNothingForHungNodes(t *testing.T) {
	for _, n := range []int{3, 7} {
		for kind, opts := range owedKinds {
			t.Run(fmt.Sprintf("%s, %d nodes", kind, n), func(t *testing.T) {
				quorumBubble(t, n, func(t *testing.T, nodes fakeQuorum) {
					nodes.established()
					c := nodes.client(t, QuorumConfig{})
					meetAt(t, c, "k")
					for _, f := range nodes[majority(n):] {
						f.hang()
					}
					lease := must(t, c.Mutex("other", opts...))
					time.Sleep(DefaultNodeTimeout)
					require.NoError(t, lease.Unlock(t.Context()))
					contender := must(t, nodes[0].client(t).Mutex("k", opts...))
					waiting := background(t, c.Mutex("k", opts...))
					time.Sleep(20 * time.Millisecond)
					synctest.Wait()
					assert.Equal(t, 1, nodes.holding("k"))
					require.NoError(t, contender.Unlock(t.Context()))
					begun := time.Now()
					assert.NotNil(t, <-waiting)
					assert.Less(t, time.Since(begun), told)
				})
			})
		}
	}
}

// A reader that waits to write is told when the last other reader leaves, though the lock
// is not free.
func TestQuorumUpgradeIsTold(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		read := nodes.client(t, QuorumConfig{}).Mutex("k", ForReading())
		reading, other := must(t, read), must(t, nodes.client(t, QuorumConfig{}).Mutex("k", ForReading()))
		upgraded := make(chan *Lease, 1)
		go func() {
			lease, err := reading.Upgrade(t.Context())
			assert.NoError(t, err)
			upgraded <- lease
		}()
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, other.Unlock(t.Context()))
		begun := time.Now()
		assert.NotNil(t, <-upgraded)
		assert.Less(t, time.Since(begun), told)
	})
}

// Of two readers that want to write one is told that each waits for the other.
func TestQuorumUpgradesDoNotWaitForEachOther(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		first := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", ForReading()))
		second := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", ForReading()))
		upgraded := make(chan *Lease, 1)
		go func() {
			lease, err := first.Upgrade(t.Context())
			assert.NoError(t, err)
			upgraded <- lease
		}()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := second.Upgrade(ctx)
		assert.ErrorIs(t, err, ErrDeadlock)
		require.NoError(t, second.Unlock(t.Context()))
		assert.NotNil(t, <-upgraded)
	})
}

// A writer that goes on reading lets the readers in that wait.
func TestQuorumDowngradeLetsReadersIn(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		writing := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", ForWriting()))
		waiting := background(t, nodes.client(t, QuorumConfig{}).Mutex("k", ForReading()))
		time.Sleep(100 * time.Millisecond)
		reading, err := writing.Downgrade(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		assert.NotNil(t, <-waiting)
		assert.Less(t, time.Since(begun), told)
		require.NoError(t, reading.Unlock(t.Context()))
	})
}

// Who had to wait and has the lock waits at no node any more once it has unlocked, also
// not at those that never gave it.
func TestQuorumWaiterLeavesEveryQueue(t *testing.T) {
	for _, opts := range [][]Option{{}, {Reentrant()}, {ForWriting()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			m := c.Mutex("k", opts...)
			held := must(t, m)
			synctest.Wait()
			waiting := background(t, nodes.client(t, QuorumConfig{}).Mutex("k", opts...))
			synctest.Wait()
			// Node 2 does not hear that the lock is free before the next one has it.
			nodes[2].set(func() {
				nodes[2].before = func(ctx context.Context, _ driver.Command) error { return errLostReply }
			})
			require.NoError(t, held.Unlock(t.Context()))
			next := <-waiting
			nodes[2].heal()
			require.NoError(t, next.Unlock(t.Context()))
			synctest.Wait()
			for i, f := range nodes {
				assert.False(t, f.Exists(m.keys.queue), "node %d", i)
			}
		})
	}
}

// A mortalNode is one from which a client is cut off, requests and messages, once it is dead.
type mortalNode struct {
	*fakeDeployment
	dead *atomic.Bool
}

type mortalNodeConn struct {
	*fakeConn
	dead *atomic.Bool
}

func (m mortalNode) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := m.fakeDeployment.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return mortalNodeConn{c.(*fakeConn), m.dead}, nil
}

func (c mortalNodeConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	if c.dead.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.fakeConn.Do(ctx, cmd)
}

// A writer that waits keeps new readers out, and one that has died does so no longer than a lease
// of its own would, however long its policy sleeps.
func TestQuorumWriterThatDiedWaitingKeepsReadersOutForItsTTL(t *testing.T) {
	const ttl = 3 * time.Second
	for name, policy := range map[string][]Option{"none": nil, "a long sleep": {Retry(Constant(time.Minute))}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			var dead atomic.Bool
			var connectors []driver.Connector
			for _, f := range nodes {
				connectors = append(connectors, mortalNode{f, &dead})
			}
			dying, err := NewQuorum(connectors, QuorumConfig{LongestTTL: ttl}, TTL(ttl))
			require.NoError(t, err)
			defer dying.Close()
			c := nodes.client(t, QuorumConfig{LongestTTL: ttl}, TTL(ttl))
			reading := must(t, c.Mutex("k", ForReading()))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			go func() { _, _ = dying.Mutex("k", append(policy, ForWriting())...).Lock(ctx) }()
			time.Sleep(100 * time.Millisecond)
			dead.Store(true)
			require.NoError(t, reading.Unlock(t.Context()))
			begun := time.Now()
			next := <-background(t, c.Mutex("k", ForReading()))
			require.NotNil(t, next)
			assert.LessOrEqual(t, time.Since(begun), ttl+placeSlack+told, "policy: %s", name)
			require.NoError(t, next.Unlock(t.Context()))
		})
	}
}

// The writer is alive, but nodes without pub/sub tell it nothing. So it looks often enough not to
// keep others from a lock that it could have. Those looks are no attempts of its policy.
func TestQuorumWriterThatHearsNothingTakesTheFreeLock(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for _, f := range nodes {
			f.noPubSub = true
		}
		c, writers := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		reading := must(t, c.Mutex("k", ForReading()))
		writing := background(t, writers.Mutex("k", ForWriting(), Retry(Attempts(2, Constant(time.Minute)))))
		time.Sleep(5 * time.Second)
		require.NoError(t, reading.Unlock(t.Context()))
		begun := time.Now()
		w := <-writing
		require.NotNil(t, w)
		assert.LessOrEqual(t, time.Since(begun), pollInterval+told)
		require.NoError(t, w.Unlock(t.Context()))
		require.NoError(t, must(t, c.Mutex("k", ForReading())).Unlock(t.Context()))
	})
}

// A distant node is one that a client's requests take a while to reach.
type distant struct {
	*fakeDeployment
	by time.Duration
}

type distantConn struct {
	driver.Conn
	by time.Duration
}

func (f distant) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := f.fakeDeployment.Connect(ctx)
	return distantConn{conn, f.by}, err
}

func (c distantConn) Do(ctx context.Context, cmd driver.Command) (driver.Value, error) {
	time.Sleep(c.by)
	return c.Conn.Do(ctx, cmd)
}

// DoBatch takes as long as one command.
func (c distantConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	time.Sleep(c.by)
	results := make([]driver.Result, len(cmds))
	for i, cmd := range cmds {
		results[i].Value, results[i].Err = c.Conn.Do(ctx, cmd)
	}
	return results
}

// near makes a client for which some nodes are nearer than the others.
func (q fakeQuorum) near(t *testing.T, nodes ...int) *Client {
	t.Helper()
	var connectors []driver.Connector
	for i, f := range q {
		by := 2 * time.Millisecond
		if slices.Contains(nodes, i) {
			by = time.Millisecond
		}
		connectors = append(connectors, distant{f, by})
	}
	c, err := NewQuorum(connectors)
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// Of several takers one wins, also if each comes first at some nodes.
func TestQuorumOneOfSeveralTakersWins(t *testing.T) {
	withoutRaceDetector(t)
	for _, opts := range [][]Option{{}, {Fenced()}, {Reentrant()}} {
		quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			takers := []*Client{nodes.near(t, 0, 1), nodes.near(t, 2, 3), nodes.near(t, 4)}
			for range 20 {
				id, err := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", opts...)).Detach(t.Context(), DefaultTTL)
				require.NoError(t, err)
				synctest.Wait()
				leases := make([]*Lease, len(takers))
				var wg sync.WaitGroup
				for i, c := range takers {
					wg.Go(func() {
						var err error
						if leases[i], err = c.Mutex("k", opts...).Attach(t.Context(), id); err != nil {
							assert.ErrorIs(t, err, ErrTaken)
						}
					})
				}
				wg.Wait()
				won := slices.DeleteFunc(leases, func(l *Lease) bool { return l == nil })
				if assert.Len(t, won, 1) {
					require.NoError(t, won[0].Unlock(t.Context()))
				}
				time.Sleep(2 * DefaultTTL) // what stands under the old id lapses
			}
		})
	}
}
