package locker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A lock is being taken: one node has given it, the others are about to. Who asks for its
// release is told that nobody holds it, and then two must not.
func TestQuorumForceReleaseSaysAbsentAndBreaksNoAcquisition(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				x, y, admin := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
				meetAt(t, x, "k")
				meetAt(t, y, "k")
				meet(t, admin)
				order := x.quorum.order("k")
				for _, place := range order[1:3] {
					nodes[place].late(func(cmd driver.Command) bool {
						return isSet(cmd) || takeScript.runs(cmd) || mutexFamily.acquire.runs(cmd) || holdFamily.acquire.runs(cmd)
					})
				}
				got := make(chan *Lease)
				go func() {
					lease, err := x.Mutex("k", opts...).TryLock(t.Context())
					assert.NoError(t, err)
					got <- lease
				}()
				time.Sleep(time.Millisecond)
				require.Equal(t, 1, nodes.holding("k"))
				_, err := admin.ForceRelease(t.Context(), "k")
				assert.ErrorIs(t, err, ErrAbsent)
				assert.Equal(t, 1, nodes.holding("k"))
				nodes[order[1]].heal()
				lease := <-got
				nodes[order[2]].heal()
				_, err = y.Mutex("k", opts...).TryLock(t.Context())
				assert.ErrorIs(t, err, ErrLocked)
				assert.NoError(t, lease.Extend(t.Context(), DefaultTTL))
			})
		})
	}
}

// One node still has what nobody holds, another is down: the lock cannot be had. Whom TryLock
// names can be got rid of.
func TestQuorumForceReleaseFromRemovesALeftoverAtAMinority(t *testing.T) {
	for kind, opts := range exclusive {
		t.Run(kind, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				meet(t, c)
				m := c.Mutex("k", opts...)
				lease := must(t, nodes.client(t, QuorumConfig{}).Mutex("k", append(opts, TTL(time.Minute), NoRenewal())...))
				everywhere()
				nodes[1].Del("k")
				nodes[2].Del("k")
				_, err := c.ForceRelease(t.Context(), "k")
				require.ErrorIs(t, err, ErrAbsent)
				require.Equal(t, 1, nodes.holding("k"))
				nodes[2].down()
				_, err = m.TryLock(t.Context())
				locked, ok := errors.AsType[*LockedError](err)
				require.True(t, ok, "%v", err)
				nodes[2].heal()
				ended, err := c.ForceReleaseFrom(t.Context(), "k", locked.Holder)
				require.NoError(t, err, "a node has ended it")
				assert.Len(t, ended, 1)
				assert.Zero(t, nodes.holding("k"))
				must(t, m)
				assert.ErrorIs(t, lease.Unlock(t.Context()), ErrNotHeld)
			})
		})
	}
}

// The lock changes hands while ForceRelease looks at it.
func TestQuorumForceReleaseSparesWhoGetsTheLockMeanwhile(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		former, next, admin := nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{}), nodes.client(t, QuorumConfig{})
		meet(t, former)
		meet(t, next)
		meet(t, admin)
		seen := must(t, former.Mutex("k"))
		everywhere()
		for _, f := range nodes {
			f.late(breakScript.runs)
		}
		done := make(chan error)
		go func() {
			_, err := admin.ForceRelease(t.Context(), "k")
			done <- err
		}()
		time.Sleep(time.Millisecond)
		require.NoError(t, seen.Unlock(t.Context()))
		synctest.Wait()
		lease := must(t, next.Mutex("k"))
		assert.ErrorIs(t, <-done, ErrTaken)
		assert.NoError(t, lease.Extend(t.Context(), DefaultTTL))
	})
}

// The look at the lock leaves time to release it, although a node does not answer.
func TestQuorumForceReleaseBesideAHungNodeWithinItsContext(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{NodeTimeout: time.Minute})
		meet(t, c)
		must(t, c.Mutex("k", ForReading()))
		must(t, c.Mutex("k", ForReading()))
		everywhere()
		nodes[0].hang()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		holders, err := c.ForceRelease(ctx, "k")
		require.NoError(t, err)
		assert.Len(t, holders, 2)
	})
}

// Something else than a lock at a minority of the nodes, or where nodes have lost their data, is in nobody's way: the holders
// are gone. It is told of where it may be at a majority.
func TestQuorumForceReleaseFromGoesByTheMajorityOfWhatIsForeign(t *testing.T) {
	for name, test := range map[string]struct {
		foreign, young int // so many nodes, from the first on
		want           error
	}{
		"at one node":          {1, 0, ErrAbsent},
		"at one that is young": {1, 1, ErrAbsent},
		"at two":               {2, 0, ErrForeign},
		"at two, one young":    {2, 1, ErrForeign},
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				lease := must(t, c.Mutex("k"))
				everywhere()
				status, err := c.Inspect(t.Context(), "k")
				require.NoError(t, err)
				require.NoError(t, lease.Unlock(t.Context()))
				synctest.Wait()
				for i, f := range nodes[:test.foreign] {
					if i < test.young {
						f.FlushAll()
					}
					require.NoError(t, f.Set("k", "for ever"))
				}
				_, err = c.ForceReleaseFrom(t.Context(), "k", status.Holders...)
				assert.ErrorIs(t, err, test.want)
			})
		})
	}
}

// Most nodes refuse to end a lease, which was on a bare majority, and the others do so: then the lock is anybody's.
func TestQuorumForceReleaseThatMostNodesRefuse(t *testing.T) {
	for name, reply := range map[string]string{
		"no permission": "NOPERM this user has no permissions to run the 'evalsha' command",
		"a password":    "NOAUTH Authentication required.",
	} {
		t.Run(name, func(t *testing.T) {
			quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
				nodes.established()
				c := nodes.client(t, QuorumConfig{})
				must(t, nodes.client(t, QuorumConfig{}).Mutex("k"))
				everywhere()
				nodes[2].Del("k")
				refuse := func(f *fakeDeployment) {
					f.set(func() {
						f.before = func(_ context.Context, cmd driver.Command) error {
							if breakScript.runs(cmd) {
								return driver.NewServerError(reply)
							}
							return nil
						}
					})
				}
				for _, f := range nodes {
					refuse(f)
				}
				_, err := c.ForceRelease(t.Context(), "k")
				require.Error(t, err)
				assert.NotErrorIs(t, err, ErrUnknown, "nothing was changed")
				nodes[0].heal()
				_, err = c.ForceRelease(t.Context(), "k")
				assert.ErrorIs(t, err, ErrUnknown)
				assert.ErrorContains(t, err, reply)
				must(t, c.Mutex("k"))
			})
		})
	}
}

// Nor is anything known where one of the others may have done so.
func TestQuorumForceReleaseThatMostNodesRefuseAndOneDoesNotAnswer(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		must(t, nodes.client(t, QuorumConfig{}).Mutex("k"))
		everywhere()
		for i, f := range nodes {
			err := error(driver.NewServerError("NOAUTH Authentication required."))
			if i == 2 {
				err = errLostReply
			}
			f.set(func() {
				f.before = func(_ context.Context, cmd driver.Command) error {
					if breakScript.runs(cmd) {
						return err
					}
					return nil
				}
			})
		}
		_, err := c.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrUnknown)
	})
}

// What was asked of too few nodes tells of each what it has said.
func TestQuorumLooksTellTheVotes(t *testing.T) {
	quorumBubble(t, 5, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		must(t, c.Mutex("held"))
		must(t, c.Mutex("read", ForReading()))
		everywhere()
		for _, f := range nodes {
			require.NoError(t, f.Set("foreign", "for ever"))
		}
		readOnly := driver.NewServerError("READONLY x")
		nodes[0].set(func() { nodes[0].before = func(context.Context, driver.Command) error { return readOnly } })
		nodes[1].set(func() { nodes[1].connectErr = errors.New("refused"); nodes[1].before = nodes[0].before })
		nodes[3].hang()
		votes := func(err error) []Vote {
			t.Helper()
			assert.ErrorIs(t, err, ErrUnavailable)
			assert.Equal(t, 1, strings.Count(err.Error(), textPrefix), "%v", err)
			q, ok := errors.AsType[*QuorumError](err)
			require.True(t, ok, "%v", err)
			require.Len(t, q.Votes, len(nodes))
			return q.Votes
		}
		for name, want := range map[string]string{"held": "held", "read": "held", "none": "free", "foreign": "another kind of value"} {
			_, err := c.Inspect(t.Context(), name)
			assert.Equal(t, want, votes(err)[2].Answer, name)
		}
		list := func(c *Client, ctx context.Context) (last error) {
			for _, err := range c.List(ctx, "none") {
				last = err
			}
			return last
		}
		all := votes(list(c, t.Context()))
		assert.ErrorIs(t, all[0].Err, readOnly)
		assert.NoError(t, all[2].Err)
		assert.ErrorContains(t, all[3].Err, "no reply in time")
		assert.ErrorIs(t, all[4].Err, errUnasked, "it was decided without it")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		assert.ErrorIs(t, list(c, ctx), context.Canceled)

		for _, f := range nodes {
			f.set(func() {
				f.before = func(context.Context, driver.Command) error { return driver.NewServerError("NOPERM x") }
			})
		}
		assert.ErrorIs(t, list(c, t.Context()), ErrPermission)
		for _, f := range nodes {
			f.heal()
		}
		require.NoError(t, c.Close())
		assert.ErrorIs(t, list(c, t.Context()), ErrClosed)
	})
}
