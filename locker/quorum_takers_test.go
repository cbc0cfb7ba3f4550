package locker

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func isUnattach(cmd driver.Command) bool {
	return mutexFamily.unattach.runs(cmd) || holdFamily.unattach.runs(cmd)
}

// A taking up that was given up reaches two nodes once more when the lease is detached again. It
// takes nothing up, and leaves the lease where it is.
func TestQuorumRepeatedTakingUpLeavesTheDetachedLease(t *testing.T) {
	eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
		const newID = 3 + 4 + 1 // after EVALSHA, sha, the number of keys, the keys and the old id
		first := make([]atomic.Pointer[[]string], len(nodes))
		healed := atomic.Bool{}
		for i, f := range nodes {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					taking := first[i].Load()
					switch {
					case isUnattach(cmd) && !healed.Load() && taking != nil && slices.Contains(cmd.Args, (*taking)[newID]):
						return errLostReply // before the node has executed it
					case isAttach(cmd) && taking == nil:
						args := slices.Clone(cmd.Args)
						first[i].Store(&args)
					}
					return nil
				}
				f.after = func(_ context.Context, cmd driver.Command) error {
					if isAttach(cmd) {
						return errLostReply
					}
					return nil
				}
			})
		}
		for range 2 { // the second one comes before what undoes the first
			_, err := m.Attach(t.Context(), id)
			require.ErrorIs(t, err, ErrUnavailable)
		}
		healed.Store(true)
		time.Sleep(time.Second)
		synctest.Wait()
		for _, f := range nodes {
			f.heal()
		}
		require.Equal(t, 3, nodes.holding("k"))
		for i, f := range nodes[:2] {
			conn, err := f.Connect(t.Context())
			require.NoError(t, err)
			_, err = conn.Do(t.Context(), driver.Command{Args: *first[i].Load()})
			require.NoError(t, err)
			require.NoError(t, conn.Close())
		}
		assert.Equal(t, 3, nodes.holding("k"))
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, taken.Unlock(t.Context()))
	})
}

// contend has two takers ask for the lease, and returns that of m, which has it. The other one was the first at node 0
// alone, and lost is told when it has given that back, which is after m has asked there.
func (q fakeQuorum) contend(t *testing.T, m *Mutex, id string) (taken *Lease, lost chan error) {
	t.Helper()
	kind := []Option{Metadata("loser"), TTL(2 * time.Second)}
	if m.mode.owned() {
		kind = append(kind, Reentrant())
	}
	loser := q.client(t, QuorumConfig{}).Mutex("k", kind...)
	isLosers := func(cmd driver.Command) bool {
		return slices.ContainsFunc(cmd.Args, func(arg string) bool { return strings.HasSuffix(arg, "|loser") })
	}
	for i, f := range q {
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error {
				switch losers := isLosers(cmd); {
				case !isAttach(cmd) || losers == (i == 0):
					return nil
				case losers:
					return wait(3*time.Millisecond)(ctx, cmd)
				}
				return wait(time.Millisecond)(ctx, cmd)
			}
		})
	}
	lost = make(chan error, 1)
	go func() { _, err := loser.Attach(t.Context(), id); lost <- err }()
	taken, err := m.Attach(t.Context(), id)
	require.NoError(t, err)
	return taken, lost
}

// Of two takers one was the first at a single node, and gives that back when the other one has had
// the lease already, and released it: nobody could take it up any more.
func TestQuorumLoserGivesNothingBackToALeaseThatIsOver(t *testing.T) {
	for name, end := range map[string]func(ctx context.Context, l *Lease) error{
		"Unlock": func(ctx context.Context, l *Lease) error { return l.Unlock(ctx) },
		"Detach": func(ctx context.Context, l *Lease) error {
			_, err := l.Detach(ctx, time.Minute)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
				taken, lost := nodes.contend(t, m, id)
				require.NoError(t, end(t.Context(), taken))
				require.Error(t, <-lost)
				time.Sleep(time.Second)
				synctest.Wait()
				assert.False(t, nodes[0].Exists("k"))
			})
		})
	}
}

// The node where the loser has given it back does not keep it either, if it does not hear of the end at once.
func TestQuorumNodeThatALoserGaveTheLeaseBackToHearsOfItsEnd(t *testing.T) {
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
				taken, lost := nodes.contend(t, m, id)
				require.Error(t, <-lost)
				synctest.Wait()
				require.True(t, nodes[0].Exists("k"))
				require.False(t, nodes[0].has(taken, "k"))
				trouble(nodes[0])
				require.NoError(t, taken.Unlock(t.Context()))
				time.Sleep(3 * time.Second)
				require.True(t, nodes[0].Exists("k"))
				nodes[0].heal()
				time.Sleep(duePause + 2*DefaultNodeTimeout)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k"))
			})
		})
	}
}

// Two nodes have taken the lease up under an id each, of two attempts that were not answered, and
// the third is down. The client knows both ids.
func TestQuorumAttachKnowsItsEarlierAttemptsThoughANodeIsDown(t *testing.T) {
	eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
		var executes atomic.Int32 // the node that does; -1: all that are up
		for i, f := range nodes {
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					only := int(executes.Load())
					switch {
					case i == 2:
						return driver.NotSent(errLostReply)
					case isUnattach(cmd), isAttach(cmd) && only >= 0 && only != i:
						return errLostReply
					}
					return nil
				}
				f.after = func(_ context.Context, cmd driver.Command) error {
					if isAttach(cmd) && executes.Load() >= 0 {
						return errLostReply
					}
					return nil
				}
			})
		}
		for i := range 2 {
			executes.Store(int32(i))
			_, err := m.Attach(t.Context(), id)
			require.ErrorIs(t, err, ErrUnavailable)
		}
		executes.Store(-1)
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, taken.Unlock(t.Context()))
	})
}

// Detach waits for a node that could take the lock late, but not to its own harm.
func TestQuorumDetachBesideANodeThatHangs(t *testing.T) {
	within := func(t *testing.T, d time.Duration) context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		t.Cleanup(cancel)
		return ctx
	}
	for name, c := range map[string]struct {
		within time.Duration
		opts   []Option
	}{
		"a short ctx":   {300 * time.Millisecond, nil},
		"a short lease": {time.Minute, []Option{TTL(500 * time.Millisecond), NoRenewal()}},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{})
				meetAt(t, client, "k")
				nodes[client.quorum.order("k")[0]].hang()
				_, err := must(t, client.Mutex("k", c.opts...)).Detach(within(t, c.within), 10*time.Second)
				require.NoError(t, err)
			})
		})
	}
	t.Run("a ttl that is invalid", func(t *testing.T) {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			client := nodes.client(t, QuorumConfig{})
			meetAt(t, client, "k")
			nodes[client.quorum.order("k")[0]].hang()
			lease, begun := must(t, client.Mutex("k")), time.Now()
			_, err := lease.Detach(t.Context(), 0)
			require.ErrorIs(t, err, ErrInvalid)
			assert.Zero(t, time.Since(begun), "it has waited")
			require.NoError(t, lease.Unlock(t.Context()))
		})
	})
}

// Who takes a hold up on a quorum goes on as its owner, and re-enters as such.
func TestQuorumTakingUpKeepsTheOwner(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		lease := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", Reentrant()))
		everywhere()
		id, err := lease.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		m := nodes.client(t, QuorumConfig{}).Mutex("k", Reentrant())
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, lease.Owner(), taken.Owner())
		_, err = m.TryLock(taken.Context())
		assert.NoError(t, err)
	})
}
