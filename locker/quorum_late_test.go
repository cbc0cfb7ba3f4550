package locker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// late has a node execute some commands so late that the next ones overtake them.
func (f *fakeDeployment) late(is func(cmd driver.Command) bool) {
	f.set(func() {
		f.before = func(ctx context.Context, cmd driver.Command) error {
			if is(cmd) {
				return wait(20*time.Millisecond)(ctx, cmd)
			}
			return nil
		}
	})
}

// isSet tells that cmd is to take a lock, and is no mark that one is over.
func isSet(cmd driver.Command) bool {
	return cmd.Name() == "SET" && !strings.HasPrefix(cmd.Args[1], sidePrefix)
}

// A detached lease has been taken up and released when a node executes what was to take it.
func TestQuorumNodeThatTakesADetachedLeaseLateKeepsNothing(t *testing.T) {
	for _, c := range []struct {
		name string
		opts []Option
		late func(cmd driver.Command) bool
		slow []int // of those asked first, or last
	}{
		{"the script", nil, mutexFamily.acquire.runs, []int{3, 4}},
		{"a hold's", []Option{Reentrant()}, holdFamily.acquire.runs, []int{3, 4}},
		{"SET", nil, isSet, []int{0, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				client := nodes.client(t, QuorumConfig{})
				meetAt(t, client, "k")
				order := client.quorum.order("k")
				for _, i := range c.slow {
					nodes[order[i]].late(c.late)
				}
				lease, begun := must(t, client.Mutex("k", c.opts...)), time.Now()
				id, err := lease.Detach(t.Context(), 10*time.Second)
				require.NoError(t, err)
				assert.Less(t, time.Since(begun), 50*time.Millisecond, "it waits for no longer than the answers take")
				time.Sleep(10 * time.Millisecond)
				taken, err := client.Mutex("k", c.opts...).Attach(t.Context(), id)
				require.NoError(t, err)
				require.NoError(t, taken.Unlock(t.Context()))
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k"))
			})
		})
	}
}

func isAttach(cmd driver.Command) bool {
	return mutexFamily.attach.runs(cmd) || holdFamily.attach.runs(cmd)
}

// eachDetached runs test with a lease of each kind that all three nodes have, and that is detached.
func eachDetached(t *testing.T, test func(t *testing.T, nodes fakeQuorum, m *Mutex, id string)) {
	for name, opts := range map[string][]Option{"mutex": nil, "hold": {Reentrant()}} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meetAt(t, c, "k")
				m := c.Mutex("k", opts...)
				lease := must(t, m)
				everywhere()
				id, err := lease.Detach(t.Context(), 10*time.Second)
				require.NoError(t, err)
				everywhere()
				test(t, nodes, m, id)
			})
		})
	}
}

// A node takes a detached lease up when that has been released already, of which it may have heard
// by its new id alone.
func TestQuorumNodeThatTakesALeaseUpLateKeepsNothing(t *testing.T) {
	for name, lost := range map[string]bool{"": false, "what ends the old id is lost": true} {
		t.Run(name, func(t *testing.T) {
			eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
				nodes[0].late(isAttach)
				attaching := nodes[0].before
				nodes[0].set(func() {
					nodes[0].before = func(ctx context.Context, cmd driver.Command) error {
						if lost && m.mode.family().release.runs(cmd) && slices.Contains(cmd.Args, id) {
							return errLostReply
						}
						return attaching(ctx, cmd)
					}
				})
				taken, err := m.Attach(t.Context(), id)
				require.NoError(t, err)
				time.Sleep(10 * time.Millisecond)
				require.NoError(t, taken.Unlock(t.Context()))
				time.Sleep(time.Second)
				synctest.Wait()
				assert.Zero(t, nodes.holding("k"))
			})
		})
	}
}

// A taking up that is given up before a node executes it leaves the detached lease there.
func TestQuorumNodeThatTakesALeaseUpLateKeepsItIfThatIsGivenUp(t *testing.T) {
	eachDetached(t, func(t *testing.T, nodes fakeQuorum, m *Mutex, id string) {
		for _, f := range nodes {
			f.late(isAttach)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := m.Attach(ctx, id)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, 3, nodes.holding("k"))
		taken, err := m.Attach(t.Context(), id)
		require.NoError(t, err)
		require.NoError(t, taken.Unlock(t.Context()))
	})
}

// Where the nodes have not agreed on a token at once, the others are asked at once, too.
func TestQuorumNodeThatTakesAFencedLeaseLateKeepsNothing(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		for range 3 {
			mustPair(t, c.Mutex("k", Fenced()))
			everywhere()
		}
		for i, f := range nodes { // so that each draws another one
			f.SetTime(time.Now().Add(time.Duration(i+1) * 20 * time.Second))
		}
		nodes[c.quorum.order("k")[2]].late(mutexFamily.acquire.runs)
		lease := must(t, c.Mutex("k", Fenced()))
		time.Sleep(10 * time.Millisecond)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Zero(t, nodes.holding("k"))
	})
}

// Who asks the nodes has an answer when their time is up, or the client gives up, whatever keeps what was asked from going out;
// and none is sent for who has no time, or is too late.
func TestQuorumAsksForNoLongerThanItsTime(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		c := nodes.client(t, QuorumConfig{})
		q, goOn := c.quorum, make(chan struct{})
		for _, n := range q.nodes {
			n.pipeline.request = func(batch []inquiry) bool {
				<-goOn
				for _, in := range batch {
					n.answer(in, unasked(in.calls))
				}
				return true
			}
		}
		poll := func(ctx context.Context) (heard []error) {
			q.poll(ctx, make([]call, 1), func(_ int, answers []driver.Result) bool {
				heard = append(heard, answers[0].Err)
				return false
			})
			require.Len(t, heard, 3)
			return heard
		}
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range poll(over) {
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		}
		begun := time.Now()
		for _, err := range poll(t.Context()) {
			assert.Error(t, err)
			assert.NotErrorIs(t, err, context.DeadlineExceeded)
		}
		assert.Equal(t, DefaultNodeTimeout, time.Since(begun))
		time.AfterFunc(time.Millisecond, q.stop)
		go func() {
			synctest.Wait()
			assert.EqualValues(t, 1, q.polls.Load())
		}()
		for _, err := range poll(t.Context()) {
			assert.ErrorIs(t, err, ErrClosed)
		}
		assert.Zero(t, q.polls.Load())
		close(goOn)
		require.NoError(t, c.Close())
		for _, err := range poll(t.Context()) {
			assert.ErrorIs(t, err, ErrClosed)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		}
	})
}
