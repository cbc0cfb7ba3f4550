package locker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// foreignCalls are those that report what is no lock of their kind, each by what it is
// made for.
func foreignCalls(t *testing.T, c *Client, name string) map[string]func() error {
	calls := map[string]func() error{
		"ForceRelease": func() error { _, err := c.ForceRelease(t.Context(), name); return err },
	}
	for kind, opts := range map[string][]Option{"mutex": nil, "reentrant": {Reentrant()}, "reader": {ForReading()}, "writer": {ForWriting()}} {
		m := c.Mutex(name, opts...)
		calls["Lock of a "+kind] = func() error { _, err := m.Lock(t.Context()); return err }
		calls["Attach of a "+kind] = func() error { _, err := m.Attach(t.Context(), newID()); return err }
	}
	return calls
}

// Who is told of somebody's lock that it never expires, and may be deleted, deletes it.
func TestForeignErrorTellsWhatExpiresFromWhatDoesNot(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		require.NoError(t, f.Set("string", "somebody's token"))
		f.HSet("hash", "somebody's thread", "1")
		report := func(expires time.Duration, but map[string]bool) {
			for _, kind := range []string{"string", "hash"} {
				for what, call := range foreignCalls(t, c, kind) {
					if what += " on a " + kind; but[what] {
						continue
					}
					err := call()
					foreign, ok := errors.AsType[*ForeignError](err)
					require.True(t, ok, "%s: %v", what, err)
					assert.Equal(t, ForeignError{Name: kind, Type: kind, Remaining: expires}, *foreign, what)
					if expires > 0 {
						assert.ErrorContains(t, err, "expires in 20s", what)
						assert.NotContains(t, err.Error(), "delete", what)
					} else {
						assert.ErrorContains(t, err, "delete it", what)
					}
				}
			}
		}
		// For all that its value tells the string could have been taken up by others.
		report(0, map[string]bool{"Attach of a mutex on a string": true})
		f.SetTTL("string", 20*time.Second)
		f.SetTTL("hash", 20*time.Second)
		// A mutex takes the string for a lock, and waits.
		report(20*time.Second, map[string]bool{"Attach of a mutex on a string": true, "Lock of a mutex on a string": true})
		_, err := c.Inspect(t.Context(), "hash")
		assert.ErrorContains(t, err, "expires in 20s")
	})
}

func TestForeignErrorTellsHowLongAnotherKindOfLockIsHeld(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k", Reentrant(), TTL(time.Minute)).Lock(t.Context())
		require.NoError(t, err)
		_, err = c.Mutex("k").Lock(t.Context())
		foreign, ok := errors.AsType[*ForeignError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, ForeignError{Name: "k", Type: "reentrant lock", Remaining: time.Minute}, *foreign)
	})
}

// The record of a lock with owners lives on for as long as the longest hold that it ever
// had. When all have run out nobody holds the lock, and any other kind can have the name.
func TestALockThatNobodyHoldsIsNoForeignOne(t *testing.T) {
	withoutRaceDetector(t)
	kinds := map[string][]Option{"mutex": nil, "fenced mutex": {Fenced()}, "reentrant": {Reentrant()}, "reader": {ForReading()}, "writer": {ForWriting()}}
	// abandon leaves a lock that is not held any more, while its record is there.
	abandon := func(t *testing.T, f *fakeDeployment, kind Option) {
		owner := As(NamedOwner("job")) // who alone may hold a reentrant lock twice
		long := must(t, f.client(t).Mutex("k", kind, owner, TTL(time.Hour)))
		must(t, f.client(t).Mutex("k", kind, owner, TTL(2*time.Second), NoRenewal()))
		for what, opts := range kinds {
			if _, err := f.client(t).Mutex("k", opts...).TryLock(t.Context()); !errors.Is(err, ErrLocked) {
				assert.ErrorIs(t, err, ErrForeign, what)
			}
		}
		require.NoError(t, long.Unlock(t.Context()))
		time.Sleep(3 * time.Second) // the short one is of a client that has crashed
		require.True(t, f.Exists("k"))
	}
	for was, kind := range map[string]Option{"reentrant": Reentrant(), "writer": ForWriting()} {
		for what, opts := range kinds {
			t.Run(what+" after a "+was, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					abandon(t, f, kind)
					_, err := f.client(t).Mutex("k", opts...).Attach(t.Context(), newID())
					assert.ErrorIs(t, err, ErrAbsent)
				})
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					abandon(t, f, kind)
					lease := must(t, f.client(t).Mutex("k", opts...))
					require.NoError(t, lease.Unlock(t.Context()))
					assert.False(t, f.Exists("k"))
				})
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					abandon(t, f, kind)
					begun := time.Now()
					_, err := f.client(t).Mutex("k", opts...).Lock(t.Context())
					require.NoError(t, err)
					assert.Zero(t, time.Since(begun))
				})
			})
		}
	}
	t.Run("quorum", func(t *testing.T) {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			long := must(t, c.Mutex("k", ForReading(), TTL(time.Minute)))
			must(t, c.Mutex("k", ForReading(), TTL(2*time.Second), NoRenewal()))
			require.NoError(t, long.Unlock(t.Context()))
			time.Sleep(3 * time.Second)
			must(t, c.Mutex("k"))
		})
	})
}

// A waiter of another kind, to whom a lock is left that nobody holds any more, is told to ask.
func TestAWaiterOfAnotherKindIsToldThatNobodyHoldsTheLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		must(t, f.client(t).Mutex("k"))
		waiter := background(t, f.client(t).Mutex("k"))
		f.Del("k")
		f.HSet("k", "gl1", "rw", newID(), fmt.Sprintf("r|%d|2000|0|somebody||", time.Now().UnixMilli()-1))
		f.SetTTL("k", time.Hour)
		_, err := f.client(t).Mutex("k", ForWriting()).TryLock(t.Context())
		assert.Error(t, err, "another one was first")
		assert.NotNil(t, granted(waiter))
	})
}

// What has no end that can be read is nothing that anybody may delete.
func TestABrokenHoldOfAnotherKindIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.HSet("k", "gl1", "rw", newID(), "what another version wrote")
		for _, opts := range [][]Option{nil, {Reentrant()}} {
			_, err := f.client(t).Mutex("k", opts...).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrForeign)
			assert.True(t, f.Exists("k"))
		}
	})
}

// An empty string is a lock of somebody else like any other, if it expires: Lock waits for
// it, and what is looked at shows it.
func TestAnEmptyStringThatExpiresIsALockToAllCalls(t *testing.T) {
	expect := func(t *testing.T, c *Client, set func(ttl time.Duration)) {
		set(0)
		_, err := c.Inspect(t.Context(), "k")
		assert.ErrorIs(t, err, ErrForeign)
		_, err = c.Mutex("k").Lock(t.Context())
		assert.ErrorIs(t, err, ErrForeign)
		assert.Empty(t, listed(t, c, ""))

		set(3 * time.Second)
		theirs := []Holder{{Mode: Exclusive, Holds: 1, Foreign: true, Remaining: 3 * time.Second}}
		s, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, theirs, s.Holders)
		assert.Equal(t, map[string]Status{"k": s}, listed(t, c, ""))
		begun := time.Now()
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.GreaterOrEqual(t, time.Since(begun), 3*time.Second)
		assert.NoError(t, lease.Unlock(t.Context()))
	}
	t.Run("single", func(t *testing.T) {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			expect(t, f.client(t), func(ttl time.Duration) {
				setEmpty(t, f, ttl)
			})
		})
	})
	t.Run("quorum", func(t *testing.T) {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			expect(t, nodes.client(t, QuorumConfig{}), func(ttl time.Duration) {
				for _, f := range nodes {
					setEmpty(t, f, ttl)
				}
			})
		})
	})
}

func setEmpty(t *testing.T, f *fakeDeployment, ttl time.Duration) {
	t.Helper()
	require.NoError(t, f.Set("k", ""))
	if ttl > 0 {
		f.SetTTL("k", ttl)
	}
}

// What a majority of the nodes has at the key is told with the time that a majority keeps it.
func TestInspectOfAQuorumTellsWhenAForeignValueExpires(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		for i, f := range nodes {
			f.HSet("k", "somebody's thread", "1")
			f.SetTTL("k", time.Duration(10+i)*time.Second)
		}
		_, err := nodes.client(t, QuorumConfig{}).Inspect(t.Context(), "k")
		foreign, ok := errors.AsType[*ForeignError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, 11*time.Second, foreign.Remaining)
		_, err = nodes.client(t, QuorumConfig{}).ForceRelease(t.Context(), "k")
		assert.ErrorContains(t, err, "expires in")
	})
}

func TestForeignRepliesWithoutATTLAreRead(t *testing.T) {
	r := &request{name: "k", mode: modeMutex}
	reply := []any{int64(-2), "list"}
	_, _, err := r.acquired(reply)
	assert.Equal(t, &ForeignError{Name: "k", Type: "list"}, err)
	_, _, err = r.attached(reply)
	assert.Equal(t, &ForeignError{Name: "k", Type: "list"}, err)
}

// As scripts say it, and servers before 7.0 around that.
func TestForeignPartsAreNamed(t *testing.T) {
	for reply, part := range map[string]string{
		"GL1FOREIGN hold of another form": "hold",
		"GL1FOREIGN fencing token":        "fencing token",
		"ERR Error running script (call to f_ab): @user_script:7: GL1FOREIGN fencing token": "fencing token",
		"WRONGTYPE Operation against a key holding the wrong kind of value":                 "side key",
	} {
		err := driver.NewServerError(reply)
		foreign, ok := errors.AsType[*ForeignError](requestError("k", err))
		require.True(t, ok, reply)
		assert.Equal(t, "k", foreign.Name)
		assert.Equal(t, part, foreign.Type)
		assert.ErrorIs(t, foreign, err)
	}
}

// A PTTL of 0 is what is left of the last millisecond: that nothing expires would be a reason to delete it.
func TestWhatExpiresAtOnceIsNotSaidToStayForEver(t *testing.T) {
	f := foreignError("k", []any{"string", int64(0)})
	assert.Positive(t, f.Remaining)
	assert.NotContains(t, f.Error(), "delete")
}

// A PTTL may be more than a Duration can hold.
func TestWhatExpiresInCenturiesIsNotAboutToExpire(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, ms := range []int64{300 * 365 * 24 * 3600 * 1000, math.MaxInt64/1_000_000 + 1, 18446744073710, math.MaxInt64} {
		f := foreignError("k", []any{"string", ms})
		assert.Greater(t, f.Remaining, 2*century, "%d ms", ms)
		h, ok := parseHold(fmt.Sprintf("r|%d|1000|0|o|l|m", ms), 1)
		require.True(t, ok)
		assert.Greater(t, h.Remaining, 2*century, "%d ms", ms)
		h, ok = parseHold(fmt.Sprintf("r|%d|1000|0|o|l|m", -ms), 1)
		require.True(t, ok)
		assert.LessOrEqual(t, h.Remaining, time.Duration(0), "%d ms", -ms)
	}
}

// Something else stands where the lock was, of whatever type. Whoever held it is told that it is somebody
// else's, by each request about the lease, and what stands there is left as it is.
func TestALeaseWhoseKeyHoldsSomethingElseIsTaken(t *testing.T) {
	values := map[string]func(t *testing.T, f *fakeDeployment){
		"string": func(t *testing.T, f *fakeDeployment) { f.do(t, "SET", "k", "foreign") },
		"list":   func(t *testing.T, f *fakeDeployment) { f.do(t, "RPUSH", "k", "foreign") },
		"hash":   func(t *testing.T, f *fakeDeployment) { f.do(t, "HSET", "k", "foreign", "1") },
		"mutex":  func(t *testing.T, f *fakeDeployment) { f.do(t, "SET", "k", "gl1|m|"+newID()+"|0|9999|other|") },
	}
	kinds := maps.Clone(exclusive)
	kinds["reader"] = []Option{ForReading()}
	for kind, opts := range kinds {
		for value, put := range values {
			t.Run(kind+" "+value, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					replaced := func(opts ...Option) *Lease {
						f.FlushAll()
						lease := must(t, f.client(t).Mutex("k", opts...))
						f.FlushAll()
						put(t, f)
						return lease
					}
					renewed := replaced(opts...)
					time.Sleep(renewed.mutex.ttl)
					assert.ErrorIs(t, context.Cause(renewed.Context()), ErrTaken)
					assert.ErrorIs(t, replaced(opts...).Extend(t.Context(), time.Minute), ErrTaken)
					assert.ErrorIs(t, replaced(opts...).Unlock(t.Context()), ErrTaken)
					assert.True(t, f.Exists("k"))
					assert.Zero(t, f.TTL("k"), "nobody may touch it")
				})
			})
		}
	}
}

// Nor is one of the same kind whose end cannot be read: it may keep everybody out.
func TestABrokenHoldOfTheSameKindIsForeign(t *testing.T) {
	for kind, opt := range map[string]Option{"x": Reentrant(), "rw": ForWriting()} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			f.HSet("k", "gl1", kind, newID(), "what another version wrote")
			_, err := f.client(t).Mutex("k", opt).TryLock(t.Context())
			assert.ErrorIs(t, err, ErrForeign)
			assert.True(t, f.Exists("k"))
		})
	}
}
