package locker

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// troubles are those in which a node does not hear of a release, and keeps its data.
var troubles = map[string]func(f *fakeDeployment){
	"stands still":  (*fakeDeployment).hang,
	"is down":       (*fakeDeployment).down,
	"is loading":    func(f *fakeDeployment) { f.refuse("LOADING Redis is loading the dataset in memory") },
	"refuses all":   func(f *fakeDeployment) { f.refuse("NOAUTH Authentication required.") },
	"loses replies": func(f *fakeDeployment) { f.set(func() { f.before = fails }) },
}

// A node has the lock, and is in trouble when it is given up, for less than the lease would have lasted. Before, it kept it for its
// TTL, and nobody had the lock when another node was lost.
func TestQuorumNodeThatDoesNotHearOfUnlockKeepsNoLock(t *testing.T) {
	for name, trouble := range troubles {
		for _, c := range []struct {
			nodes int
			lasts time.Duration
		}{{3, 300 * time.Millisecond}, {3, 10 * time.Second}, {5, 10 * time.Second}} {
			t.Run(fmt.Sprintf("%d nodes, one %s for %v", c.nodes, name, c.lasts), func(t *testing.T) {
				eachOwed(t, c.nodes, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
					for i, place := range order[:c.nodes] {
						f := nodes[place]
						lease := must(t, m)
						everywhere()
						require.Equal(t, c.nodes, nodes.holding("k"))
						trouble(f)
						require.NoError(t, lease.Unlock(t.Context()))
						time.Sleep(c.lasts)
						require.Equal(t, 1, nodes.holding("k"))
						f.heal()
						time.Sleep(duePause + 2*DefaultNodeTimeout)
						synctest.Wait()
						assert.Zero(t, nodes.holding("k"), "the node asked as number %d", i)
					}
				})
			})
		}
	}
}

// Nor where it has taken a detached lease up, or is suspect, so that it is spared the release.
func TestQuorumNodeThatIsSparedTheReleaseKeepsNoLock(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[2]]
		lease := must(t, m)
		everywhere()
		id, err := lease.Detach(t.Context(), DefaultTTL)
		require.NoError(t, err)
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 3, nodes.holding("k"))
		f.hang()
		n := m.client.quorum.nodes[order[2]]
		other := m.client.Mutex("other", ForWriting())
		for !n.suspect() || n.asked.Load() < maxProbes {
			l := must(t, other)
			require.NoError(t, l.Unlock(t.Context()))
			time.Sleep(10 * time.Millisecond)
		}
		require.NoError(t, taken.Unlock(t.Context()))
		f.heal()
		time.Sleep(duePause + 2*DefaultNodeTimeout)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

func (r *rest) owesAt(place int) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owed.has(place)
}

// Nor where it owes an answer to the request for the lock, and answers that in time.
func TestQuorumNodeThatIsSparedTheReleaseWhileItIsAskedKeepsNoLock(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f, n := nodes[order[2]], m.client.quorum.nodes[order[2]]
		goOn := f.freeze()
		for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			require.Less(t, time.Since(begun), time.Minute)
			lease := must(t, m)
			everywhere()
			spared := lease.tenure.rest.owesAt(n.place) && n.suspect() && n.asked.Load() == maxProbes
			require.NoError(t, lease.Unlock(t.Context()))
			if spared {
				break
			}
		}
		goOn()
		time.Sleep(duePause + 2*DefaultNodeTimeout)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// Who closes the client with the lease has no time to tell more than once. But a lease that was given up before is told of.
func TestQuorumNodeThatIsBackAtCloseKeepsNoLock(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[0]]
		lease := must(t, m)
		everywhere()
		f.down()
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(3300 * time.Millisecond)
		f.heal()
		require.NoError(t, m.client.Close())
		assert.Zero(t, nodes.holding("k"))
	})
}

// A node that is down while locks are taken and given up has none of them, and is told of none. One that is hung may have
// each that it was asked for.
func TestQuorumNodeThatGaveNoLockIsNotToldOfItsEnd(t *testing.T) {
	for name, trouble := range map[string]func(f *fakeDeployment){
		"down": (*fakeDeployment).down,
		"hung": (*fakeDeployment).hang,
	} {
		for _, held := range []time.Duration{0, 100 * time.Millisecond} {
			t.Run(fmt.Sprintf("%s, each held for %v", name, held), func(t *testing.T) {
				eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
					trouble(nodes[order[2]])
					n := m.client.quorum.nodes[order[2]]
					for range 20 {
						lease := must(t, m)
						time.Sleep(held)
						require.NoError(t, lease.Unlock(t.Context()))
						time.Sleep(10 * time.Millisecond)
					}
					time.Sleep(10 * time.Second)
					n.dues.mu.Lock()
					defer n.dues.mu.Unlock()
					if name == "down" {
						assert.Empty(t, n.dues.waiting)
					}
					assert.LessOrEqual(t, len(n.dues.waiting), 20, "one for each lease whose request it may execute still")
				})
			})
		}
	}
}

// Nor does a node that hangs when a lease is over at once, and the other one's answer was lost, so that ctx ends before the
// nodes have had their time.
func TestQuorumNodeThatDoesNotHearOfUnlockBeforeItsContextEndsKeepsNoLock(t *testing.T) {
	for i := range 2 {
		eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
			if m.mode.owned() {
				return // all nodes are asked for these
			}
			loses, hangs := nodes[order[i]], nodes[order[1-i]]
			lease := must(t, m)
			require.Equal(t, 2, nodes.holding("k"))
			loses.set(func() { loses.after = once("EVALSHA", errLostReply) })
			hangs.hang()
			ctx, cancel := context.WithTimeout(t.Context(), 3*DefaultNodeTimeout/2)
			defer cancel()
			require.NoError(t, lease.Unlock(ctx))
			require.Error(t, ctx.Err())
			require.True(t, hangs.Exists("k"))
			hangs.heal()
			time.Sleep(duePause + 2*DefaultNodeTimeout)
			synctest.Wait()
			assert.Zero(t, nodes.holding("k"))
		})
	}
}
