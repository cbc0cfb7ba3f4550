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

// standsStill has the node answer nothing until what it returns is called. Then it executes what was sent by the
// connections that it had: that is what comes within the first moment, as later connections do not get as far as to
// send a command.
func (f *fakeDeployment) standsStill(t *testing.T) (goOn func()) {
	return f.standsStillAt(t, isAcquire)
}

// standsStillAt is that, of those commands.
func (f *fakeDeployment) standsStillAt(t *testing.T, is func(cmd driver.Command) bool) (goOn func()) {
	had := make(chan driver.Command, 64)
	until := time.Now().Add(5 * time.Millisecond)
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			if time.Now().Before(until) && is(cmd) {
				had <- cmd
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	return func() {
		f.heal()
		for len(had) > 0 {
			f.do(t, (<-had).Args...)
		}
	}
}

// hearsOnce has the node stand still from the first such command on, which it executes when it goes on. Until then it takes no
// more connections.
func (f *fakeDeployment) hearsOnce(t *testing.T, is func(cmd driver.Command) bool) (goOn func()) {
	var had atomic.Pointer[driver.Command]
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			if !is(cmd) || !had.CompareAndSwap(nil, &cmd) {
				return driver.NotSent(errors.New("connection refused"))
			}
			<-ctx.Done()
			return ctx.Err()
		}
	})
	return func() {
		f.heal()
		if cmd := had.Load(); cmd != nil {
			f.do(t, cmd.Args...)
		}
	}
}

// A node stands still when it is asked for a lock, and until what ends the lease has had its time there, too. When it
// goes on, it takes the lock. The client is open, and makes no other request. (It is not told at the moment when it goes
// on: a SET that comes after that is not undone.)
func TestQuorumNodeThatStoodStillKeepsNoLockThatWasGivenUp(t *testing.T) {
	for _, n := range []int{3, 5} {
		for _, held := range []time.Duration{0, 2 * restPause, 2 * time.Second} {
			for _, still := range []time.Duration{3300 * time.Millisecond, 30300 * time.Millisecond} {
				t.Run(fmt.Sprintf("%d nodes, held for %v, goes on after %v more", n, held, still), func(t *testing.T) {
					eachOwed(t, n, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
						for i := range n {
							f := nodes[order[i]]
							goOn := f.standsStill(t)
							lease := must(t, m)
							time.Sleep(held)
							require.NoError(t, lease.Unlock(t.Context()))
							time.Sleep(still)
							goOn()
							time.Sleep(duePause + 2*DefaultNodeTimeout)
							synctest.Wait()
							assert.Zero(t, nodes.holding("k"), "the node asked as number %d", i)
						}
					})
				})
			}
		}
	}
}

// Nor does one that stands still when a detached lease is taken up, whether it executes that then or has not got it.
func TestQuorumNodeThatStoodStillKeepsNoLeaseThatWasTakenUpAndGivenUp(t *testing.T) {
	for name, is := range map[string]func(driver.Command) bool{
		"executed":  isAttach,
		"not there": func(driver.Command) bool { return false },
	} {
		for _, held := range []time.Duration{0, 2 * time.Second} {
			t.Run(fmt.Sprintf("%s, held for %v", name, held), func(t *testing.T) {
				eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
					goOn := nodes[0].standsStillAt(t, is)
					taken, err := m.Attach(t.Context(), id)
					require.NoError(t, err)
					time.Sleep(held)
					require.NoError(t, taken.Unlock(t.Context()))
					time.Sleep(12300 * time.Millisecond)
					goOn()
					time.Sleep(duePause + 2*DefaultNodeTimeout)
					synctest.Wait()
					assert.Zero(t, nodes.holding("k"))
				})
			})
		}
	}
}

// Nor does one that stands still when a try is made that gets no majority, and beyond the end of that.
func TestQuorumNodeThatStoodStillKeepsNoLockThatWasNotGranted(t *testing.T) {
	for _, still := range []time.Duration{3300 * time.Millisecond, 30300 * time.Millisecond} {
		t.Run(still.String(), func(t *testing.T) {
			eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
				lost := nodes[order[1]].losesAcquires(true)
				goOn := nodes[order[2]].standsStill(t)
				_, err := m.TryLock(t.Context())
				require.ErrorIs(t, err, ErrUnavailable)
				assert.NotEmpty(t, lost)
				time.Sleep(still)
				goOn()
				time.Sleep(duePause + 2*DefaultNodeTimeout)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k"))
			})
		})
	}
}

// Nor does one that has the detached lease and cannot be reached while another process takes it up and gives it up.
func TestQuorumNodeThatWasOutOfReachKeepsNoLeaseThatWasTakenUpAndGivenUp(t *testing.T) {
	for _, held := range []time.Duration{0, 2 * time.Second} {
		t.Run(fmt.Sprintf("held for %v", held), func(t *testing.T) {
			eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
				require.Equal(t, 3, nodes.holding("k"))
				nodes[0].down()
				taken, err := m.Attach(t.Context(), id)
				require.NoError(t, err)
				time.Sleep(held)
				require.NoError(t, taken.Unlock(t.Context()))
				time.Sleep(5 * time.Second)
				require.True(t, nodes[0].Exists("k"))
				nodes[0].heal()
				time.Sleep(duePause + 2*DefaultNodeTimeout)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k"))
			})
		})
	}
}

// Nor the other nodes' word for a detached lease.
func TestQuorumNodeThatStoodStillIsToldOfADetachedLease(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[2]]
		f.standsStill(t)
		lease := must(t, m)
		time.Sleep(2 * restPause)
		id, err := lease.Detach(t.Context(), 20*time.Second)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		f.heal()
		time.Sleep(duePause + 2*DefaultNodeTimeout)
		assert.True(t, f.Exists(m.keys.over(id)))
	})
}

// A node that does not come back is told no more once it makes no difference: its requests would go on for good.
func TestQuorumNodeThatIsGoneIsNotToldForGood(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[0]]
		f.standsStill(t)
		require.NoError(t, must(t, m).Unlock(t.Context()))
		time.Sleep(30 * time.Second)
		d := &m.client.quorum.nodes[order[0]].dues
		waits := func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return d.timer != nil || len(d.waiting) > 0
		}
		for range 200 { // not while it is being told
			if waits() {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.True(t, waits(), "it is told still")
		time.Sleep(voidLife(DefaultTTL))
		assert.False(t, waits())
	})
}

// Close tells it once more, and waits for no longer than a node has time to answer.
func TestQuorumCloseTellsANodeThatHasJustGoneOn(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		f := nodes[order[0]]
		goOn := f.standsStill(t)
		require.NoError(t, must(t, m).Unlock(t.Context()))
		time.Sleep(3300 * time.Millisecond)
		goOn()
		require.NoError(t, m.client.Close())
		assert.Zero(t, nodes.holding("k"))
	})
}

func TestQuorumCloseWaitsForANodeThatStandsStillOnce(t *testing.T) {
	eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
		nodes[order[0]].standsStill(t)
		require.NoError(t, must(t, m).Unlock(t.Context()))
		time.Sleep(3300 * time.Millisecond)
		begun := time.Now()
		require.NoError(t, m.client.Close())
		assert.LessOrEqual(t, time.Since(begun), DefaultNodeTimeout)
		assert.Nil(t, m.client.quorum.nodes[order[0]].dues.timer, "nothing goes on")
	})
}

// Who has been told, or never will do it, is not told again each second.
func TestQuorumNodeIsToldAgainOnlyWhatItMayStillDo(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		n := nodes.client(t, QuorumConfig{}).quorum.nodes[0]
		answers := []driver.Result{
			{Value: int64(1)},
			{Value: int64(0)},
			{Err: driver.NotSent(driver.ErrClosed)}, // by the application
			{Err: driver.NewServerError("WRONGTYPE Operation against a key holding the wrong kind of value")},
		}
		n.told(make([]due, len(answers)), answers)
		assert.Empty(t, n.dues.waiting)
		assert.Nil(t, n.dues.timer)
	})
}

// What is to be told has bounds, as has what is asked of a node that does not answer.
func TestQuorumNodeThatStandsStillIsToldNoMoreThanSoMuch(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		n := nodes.client(t, QuorumConfig{}).quorum.nodes[0]
		nodes[0].hang()
		for range 3 {
			before := n.dues.timer
			n.told(make([]due, maxDues/2+1), allFailed(make([]call, maxDues/2+1), errLostReply))
			assert.True(t, before == nil || before == n.dues.timer, "one timer serves all")
		}
		n.dues.mu.Lock()
		defer n.dues.mu.Unlock()
		assert.Len(t, n.dues.waiting, maxDues)
		n.dues.timer.Stop() // these are no calls
		n.dues.waiting = nil
	})
}

// answersTheSecond has the reply to the first such command lost.
func (f *fakeDeployment) answersTheSecond(is func(cmd driver.Command) bool, after time.Duration) {
	var asked atomic.Bool
	f.set(func() {
		f.after = func(ctx context.Context, cmd driver.Command) error {
			if !is(cmd) || asked.Swap(true) {
				return wait(after)(ctx, cmd)
			}
			return errLostReply
		}
	})
}

// Nor does one that stands still when it is asked first, and cannot be reached when it is asked once more, since the others'
// answers were lost: it is not known what it does with the first request.
func TestQuorumNodeThatStoodStillAndCouldNotBeReachedKeepsNoLockThatWasGivenUp(t *testing.T) {
	for _, late := range []time.Duration{0, time.Millisecond} {
		t.Run(fmt.Sprintf("the others decide after %v", late), func(t *testing.T) {
			eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, order order) {
				for i := range nodes {
					for _, other := range nodes {
						other.answersTheSecond(isAcquire, late)
					}
					goOn := nodes[order[i]].hearsOnce(t, isAcquire)
					lease := must(t, m)
					time.Sleep(2 * time.Second)
					require.NoError(t, lease.Unlock(t.Context()))
					time.Sleep(3300 * time.Millisecond)
					goOn()
					time.Sleep(duePause + 2*DefaultNodeTimeout)
					synctest.Wait()
					assert.Zero(t, nodes.holding("k"), "the node asked as number %d", i)
				}
			})
			t.Run("Attach", func(t *testing.T) {
				eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
					for _, other := range nodes[1:] {
						other.answersTheSecond(isAttach, late)
					}
					goOn := nodes[0].hearsOnce(t, isAttach)
					taken, err := m.Attach(t.Context(), id)
					require.NoError(t, err)
					time.Sleep(2 * time.Second)
					require.NoError(t, taken.Unlock(t.Context()))
					time.Sleep(3300 * time.Millisecond)
					goOn()
					time.Sleep(duePause + 2*DefaultNodeTimeout)
					synctest.Wait()
					assert.Zero(t, nodes.holding("k"))
				})
			})
		})
	}
}

// Nor does a node keep the lock that refuses to end a try that was not granted, while another one fails that had ended it before,
// nor if the watchdog comes too late for the last request. Close need not wait for it: most nodes have ended the try.
func TestQuorumNodeThatRefusesTheEndOfATryKeepsNoLockThoughAnotherFailsThen(t *testing.T) {
	for name, goesOn := range map[string]func(t *testing.T, c *Client, left *cleanup, refuses, another *fakeDeployment){
		"for long": func(t *testing.T, _ *Client, _ *cleanup, _, another *fakeDeployment) {
			time.Sleep(minorityTime / 3)
			another.down()
			time.Sleep(3 * minorityTime)
		},
		"late": func(_ *testing.T, _ *Client, left *cleanup, _, _ *fakeDeployment) {
			left.due(now().add(2 * minorityTime))
		},
		"for a moment, and the other does not fail": func(_ *testing.T, _ *Client, _ *cleanup, refuses, _ *fakeDeployment) {
			time.Sleep(minorityTime / 3)
			refuses.heal()
		},
		"at Close": func(t *testing.T, c *Client, _ *cleanup, _, another *fakeDeployment) {
			another.refuse("LOADING Redis is loading the dataset in memory", mutexFamily.giveUp)
			begun := time.Now()
			assert.NoError(t, c.Close())
			assert.Less(t, time.Since(begun), time.Second, "it does not wait for who refuses")
		},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				must(t, nodes.client(t, QuorumConfig{}).Mutex("k"))
				everywhere()
				c := nodes.client(t, QuorumConfig{})
				order := c.quorum.order("k")
				refuses, another := nodes[order[0]], nodes[order[1]]
				refuses.Del("k")
				refuses.refuse("LOADING Redis is loading the dataset in memory", mutexFamily.giveUp)
				_, err := c.Mutex("k").TryLock(t.Context())
				require.ErrorIs(t, err, ErrLocked)
				synctest.Wait()
				c.watchdog.mu.Lock()
				left, ok := c.watchdog.jobs.first().task.(*cleanup)
				c.watchdog.mu.Unlock()
				require.True(t, ok)
				goesOn(t, c, left, refuses, another)
				require.Equal(t, 3, nodes.holding("k"))
				refuses.heal()
				another.heal()
				time.Sleep(duePause + 2*DefaultNodeTimeout)
				synctest.Wait()
				assert.Equal(t, name == "at Close", refuses.Exists("k"))
			})
		})
	}
}

// Close tells it also where a request before has got no answer, and never will.
func TestQuorumCloseTellsANodeBehindARequestWithoutAnAnswer(t *testing.T) {
	for node := range 3 {
		eachOwed(t, 3, func(t *testing.T, nodes fakeQuorum, m *Mutex, _ order) {
			f := nodes[node]
			lease := must(t, m)
			everywhere()
			require.True(t, f.Exists("k"))
			f.set(func() {
				lost := false
				f.before = func(ctx context.Context, _ driver.Command) error {
					f.mu.Lock()
					first := !lost
					lost = true
					f.mu.Unlock()
					if first {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
			})
			require.NoError(t, lease.Extend(t.Context(), DefaultTTL))
			synctest.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			require.NoError(t, m.client.Close())
			assert.Zero(t, nodes.holding("k"))
		})
	}
}
