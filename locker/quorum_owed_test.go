package locker

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// losesAcquires has the requests for a lock that come to the node from now on go astray: they are not answered, which is
// noticed at once where the connection breaks, and are returned to be executed later.
func (f *fakeDeployment) losesAcquires(breaks bool) chan driver.Command {
	lost := make(chan driver.Command, 16)
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			if !isAcquire(cmd) {
				return nil
			}
			lost <- cmd
			if breaks {
				return errLostReply
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	return lost
}

var owedKinds = map[string][]Option{
	"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writing": {ForWriting()}, "reentrant, fenced": {Reentrant(), Fenced()},
}

// eachOwed runs test for a lock of each kind, on a quorum of n nodes whose order for it is given. Under the race
// detector it does so for the least and the most of them; make histories tests all.
func eachOwed(t *testing.T, n int, test func(t *testing.T, nodes fakeQuorum, m *Mutex, order order)) {
	for name, opts := range owedKinds {
		if underRace && len(opts) == 1 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, n, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meetAt(t, c, "k")
				test(t, nodes, c.Mutex("k", opts...), c.quorum.order("k"))
			})
		})
	}
}

// The line to a node delivers what is to take the lock when it has long been given up.
func TestQuorumScriptThatIsExecutedLongAfterUnlockTakesNothing(t *testing.T) {
	for _, held := range []time.Duration{0, 2 * restPause, 100 * time.Millisecond, 2 * time.Second} {
		t.Run("held for "+held.String(), func(t *testing.T) {
			eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
				for i := range 2 * len(nodes) {
					f := nodes[order[i/2]]
					lost := f.losesAcquires(i%2 == 1)
					lease := must(t, m)
					time.Sleep(held)
					require.NoError(t, lease.Unlock(t.Context()))
					time.Sleep(time.Second)
					f.heal()
					time.Sleep(30 * time.Second)
					for len(lost) > 0 {
						if cmd := <-lost; !isSet(cmd) { // which cannot know
							f.do(t, cmd.Args...)
						}
					}
					synctest.Wait()
					assert.Zero(t, nodes.holding("k"))
				}
			})
		})
	}
}

// Nor where it went to the node since one that was asked first was slow.
func TestQuorumScriptBesideASlowNodeThatIsExecutedLongAfterUnlockTakesNothing(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		order := c.quorum.order("k")
		nodes[order[0]].answersLate(2 * minSlowness)
		f := nodes[order[2]]
		lost := f.losesAcquires(false)
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		require.Len(t, lost, 1, "before the lock was had")
		time.Sleep(time.Second)
		f.heal()
		time.Sleep(30 * time.Second)
		f.do(t, (<-lost).Args...)
		assert.Zero(t, nodes.holding("k"))
	})
}

// Nor when the client has been closed.
func TestQuorumScriptThatIsExecutedLongAfterCloseTakesNothing(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[2]]
		lost := f.losesAcquires(false)
		must(t, m)
		time.Sleep(2 * restPause)
		require.NoError(t, m.client.Close())
		f.heal()
		time.Sleep(30 * time.Second)
		for len(lost) > 0 {
			f.do(t, (<-lost).Args...)
		}
		assert.Zero(t, nodes.holding("k"))
	})
}

// Nor where the release is the last that the node hears of the client, which waits for it no longer.
func TestQuorumReleaseAtCloseIsRememberedForLong(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[2]]
		lost := f.losesAcquires(false)
		lease := must(t, m)
		time.Sleep(2 * restPause)
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if m.mode.family().release.runs(cmd) {
					f.hang()
				}
				return nil
			}
		})
		begun := time.Now()
		require.NoError(t, m.client.Close())
		assert.Less(t, time.Since(begun), DefaultNodeTimeout)
		f.heal()
		require.True(t, f.Exists(m.keys.over(lease.tenure.id)))
		time.Sleep(30 * time.Second)
		for len(lost) > 0 {
			f.do(t, (<-lost).Args...)
		}
		assert.Zero(t, nodes.holding("k"))
	})
}

// Nor where the client is closed after Unlock, as by a program that does one thing, before the node has had its time: Close
// waits for that, and has the node told.
func TestQuorumScriptThatIsExecutedLongAfterUnlockAndCloseTakesNothing(t *testing.T) {
	for _, after := range []time.Duration{0, 100 * time.Millisecond, DefaultNodeTimeout + 100*time.Millisecond} {
		for _, breaks := range []bool{false, true} {
			t.Run(fmt.Sprintf("closed after %v, the connection breaks: %v", after, breaks), func(t *testing.T) {
				eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
					f := nodes[order[2]]
					lost := f.losesAcquires(breaks)
					lease := must(t, m)
					time.Sleep(2 * restPause)
					require.NoError(t, lease.Unlock(t.Context()))
					time.Sleep(after)
					begun := time.Now()
					require.NoError(t, m.client.Close())
					assert.LessOrEqual(t, time.Since(begun), DefaultNodeTimeout)
					f.heal()
					time.Sleep(30 * time.Second)
					for len(lost) > 0 {
						f.do(t, (<-lost).Args...)
					}
					assert.Zero(t, nodes.holding("k"))
				})
			})
		}
	}
}

// Nor when the lease was detached, and nobody has taken it up.
func TestQuorumScriptThatIsExecutedLongAfterDetachTakesNothing(t *testing.T) {
	for _, held := range []time.Duration{0, 2 * restPause, 2 * time.Second} {
		for _, breaks := range []bool{false, true} {
			t.Run(fmt.Sprintf("held for %v, the connection breaks: %v", held, breaks), func(t *testing.T) {
				eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
					f := nodes[order[2]]
					lost := f.losesAcquires(breaks)
					lease := must(t, m)
					time.Sleep(held)
					_, err := lease.Detach(t.Context(), 20*time.Second)
					require.NoError(t, err)
					require.NoError(t, m.client.Close())
					f.heal()
					time.Sleep(30 * time.Second)
					for len(lost) > 0 {
						f.do(t, (<-lost).Args...)
					}
					assert.Zero(t, nodes.holding("k"))
				})
			})
		}
	}
}

// But who takes it up has it from a node, too, that had given it and whose answer was lost.
func TestQuorumNodeWhoseAnswerWasLostBeforeDetachGivesTheLeaseToItsTaker(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[2]]
		f.set(func() {
			f.after = func(_ context.Context, cmd driver.Command) error {
				if isAcquire(cmd) {
					return errLostReply
				}
				return nil
			}
		})
		lease := must(t, m)
		time.Sleep(2 * restPause)
		id, err := lease.Detach(t.Context(), 20*time.Second)
		require.NoError(t, err)
		synctest.Wait()
		f.heal()
		require.True(t, f.Exists(m.keys.over(id)), "it has been told")
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		synctest.Wait()
		assert.Equal(t, 3, nodes.have(taken, "k"))
		require.NoError(t, taken.Unlock(t.Context()))
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// So it has from all nodes where none has answered the first request for the lock, which was had by another one.
func TestQuorumLeaseThatWasHadByTheSecondRequestIsTakenUp(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		for _, f := range nodes {
			var lost atomic.Bool
			f.set(func() {
				f.after = func(_ context.Context, cmd driver.Command) error {
					if isAcquire(cmd) && lost.CompareAndSwap(false, true) {
						return errLostReply
					}
					return nil
				}
			})
		}
		lease := must(t, m)
		everywhere()
		require.True(t, lease.tenure.mayArrive())
		id, err := lease.Detach(t.Context(), 20*time.Second)
		require.NoError(t, err)
		everywhere()
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		everywhere()
		assert.Equal(t, 3, nodes.have(taken, "k"))
		require.NoError(t, taken.Unlock(t.Context()))
	})
}

// Where all nodes answer, though some after Unlock, none of them remembers a lease for longer than what is sent twice may
// take: a server that gives thousands of leases in a second would have a key of each for a minute.
func TestQuorumNodesThatAnswerRememberNoLeaseForLong(t *testing.T) {
	eachOwed(t, 5, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		for i, place := range order {
			nodes[place].slow(time.Duration(i+1) * 300 * time.Microsecond)
		}
		for _, held := range []time.Duration{0, restPause, 2 * restPause, 10 * time.Millisecond} {
			for range 10 {
				lease := must(t, m)
				time.Sleep(held)
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(20 * time.Millisecond) // all have heard of it
			}
		}
		time.Sleep(echoLife)
		for _, f := range nodes {
			for _, key := range f.Keys() {
				assert.NotContains(t, key, m.keys.void, "%v are left", f.TTL(key))
			}
		}
	})
}

// Nor does one that had another's lock for a moment, and was asked again.
func TestQuorumNodeThatWasAskedAgainRemembersNoLeaseForLong(t *testing.T) {
	eachContended(t, func(t *testing.T, nodes fakeQuorum, refusing *fakeDeployment, lease *Lease, lose func()) {
		lose()
		time.Sleep(soonAgain)
		require.True(t, refusing.has(lease, "k"))
		over := lease.mutex.keys.over(lease.tenure.id)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		assert.LessOrEqual(t, refusing.TTL(over), echoLife)
	})
}

// Nor do the others where one has not answered SET, which does not know what is remembered.
func TestQuorumSetWithoutAnAnswerHasNoNodeRememberTheLeaseForLong(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meetAt(t, c, "k")
		order := c.quorum.order("k")
		nodes[order[0]].hang()
		lease := must(t, c.Mutex("k"))
		time.Sleep(2 * DefaultNodeTimeout)
		over := lease.mutex.keys.over(lease.tenure.id)
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		for _, place := range order[1:3] {
			assert.LessOrEqual(t, nodes[place].TTL(over), echoLife)
		}
	})
}

// Nor does it where the release was not answered, and is made again while the node has its time.
func TestQuorumUnlockAgainBesideANodeThatOwesAnAnswerDoesNotHoldUpClose(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		nodes[order[2]].losesAcquires(false)
		lease := must(t, m)
		time.Sleep(2 * restPause)
		for _, place := range order[:2] {
			nodes[place].refuse("LOADING Redis is loading the dataset in memory", m.mode.family().release)
		}
		ctx, cancel := context.WithTimeout(t.Context(), DefaultNodeTimeout/4)
		defer cancel()
		require.Error(t, lease.Unlock(ctx))
		for _, place := range order[:2] {
			nodes[place].heal()
		}
		require.NoError(t, lease.Unlock(t.Context()))
		begun := time.Now()
		assert.NoError(t, m.client.Close())
		assert.Less(t, time.Since(begun), 2*DefaultNodeTimeout)
	})
}
