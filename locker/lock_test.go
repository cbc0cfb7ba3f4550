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

// bubble runs a test on a fake deployment in a synctest bubble.
func bubble(t *testing.T, test func(t *testing.T, f *fakeDeployment)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newDeployment(t)) })
}

func TestLockUnlock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"))
		m := c.Mutex("k", TTL(10*time.Second), Metadata("job|7"))
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		assert.True(t, lease.Valid())
		assert.NoError(t, lease.Context().Err())
		assert.Equal(t, 10*time.Second, f.TTL("k"))
		value, _ := f.Get("k")
		assert.Equal(t, "gl1|m|"+lease.tenure.id+"|0|10000|me|job|7", value)

		_, err = c.Mutex("k").TryLock(t.Context())
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, Holder{Mode: Exclusive, Holds: 1, Label: "me", Metadata: "job|7", Remaining: 10 * time.Second, leases: fingerprint(lease.tenure.id)}, locked.Holder)
		assert.ErrorIs(t, err, ErrLocked)

		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()), "a second Unlock gives the same answer")
		assert.False(t, lease.Valid())
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrReleased)
		assert.False(t, f.Exists("k"))
	})
}

func TestUncontendedPairIsTwoCommands(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k")
		pair := func() {
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
		pair()
		f.reset()
		pair()
		assert.Equal(t, []string{"SET", "EVALSHA"}, f.commands())
	})
}

func TestUnlockTellsThreeAnswers(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lock := func() *Lease {
			lease, err := c.Mutex("k", TTL(time.Second), NoRenewal()).Lock(t.Context())
			require.NoError(t, err)
			return lease
		}
		lease := lock()
		time.Sleep(2 * time.Second)
		err := lease.Unlock(t.Context())
		assert.ErrorIs(t, err, ErrAbsent)
		assert.ErrorIs(t, err, ErrNotHeld)

		lease = lock()
		time.Sleep(2 * time.Second)
		second := lock()
		for range 2 {
			assert.ErrorIs(t, lease.Unlock(t.Context()), ErrTaken, "it says the same again")
		}
		assert.True(t, second.Valid())
		assert.True(t, f.Exists("k"), "somebody else's lock is not touched")
		assert.NoError(t, second.Unlock(t.Context()))
	})
}

func TestRenewalKeepsTheLease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k", TTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		assert.True(t, lease.Valid())
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}

func TestRenewalOutlivesTheContextOfLock(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		ctx, cancel := context.WithCancel(t.Context())
		lease, err := f.client(t).Mutex("k", TTL(time.Second)).Lock(ctx)
		require.NoError(t, err)
		cancel()
		time.Sleep(time.Minute)
		assert.True(t, lease.Valid())
	})
}

func TestLossByPartition(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(900*time.Millisecond)).Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		begun := time.Now()
		<-lease.Context().Done()
		ended := time.Since(begun)
		assert.Equal(t, 900*time.Millisecond-margin(900*time.Millisecond), ended)
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
		assert.False(t, lease.Valid())
		assert.True(t, f.Exists("k"), "the context ends before the server lets go")
		f.set(func() { f.before = nil })
		other := f.client(t)
		second, err := other.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.NoError(t, second.Unlock(t.Context()))
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrAbsent)
	})
}

func TestRenewalRetriesTransientErrorsUntilTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(9*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		for _, reply := range []string{"READONLY You can't write", "LOADING Redis is loading", "BUSY Redis is busy",
			"MISCONF no", "CLUSTERDOWN no", "NOREPLICAS no", "ERR max number of clients reached"} {
			f.set(func() {
				f.before = func(context.Context, driver.Command) error { return driver.NewServerError(reply) }
			})
			time.Sleep(6 * time.Second)
			f.set(func() { f.before = nil })
			time.Sleep(4 * time.Second)
			require.True(t, lease.Valid(), "after %s", reply)
		}
	})
}

func TestRenewalLearnsOfTheLossAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(30*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Set("k", "somebody"))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		cause := context.Cause(lease.Context())
		assert.ErrorIs(t, cause, ErrLost)
		assert.ErrorIs(t, cause, ErrTaken)
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrTaken)
		value, _ := f.Get("k")
		assert.Equal(t, "somebody", value)
	})
}

func TestLostReply(t *testing.T) {
	for _, name := range []string{"SET", "EVALSHA"} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				var opts []Option
				if name == "EVALSHA" {
					opts = append(opts, Fenced())
				}
				c := f.client(t)
				f.set(func() { f.after = once(name, errLostReply) })
				lease, err := c.Mutex("k", opts...).TryLock(t.Context())
				require.NoError(t, err, "the lock was free")
				assert.True(t, lease.Valid())
				f.set(func() { f.after = once("EVALSHA", errLostReply) })
				assert.NoError(t, lease.Unlock(t.Context()), "absent after an unanswered release is released")
				assert.False(t, f.Exists("k"))
			})
		})
	}
}

func TestGivenUpAttemptLeavesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// Applied, and the reply never comes.
		f.set(func() {
			f.after = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		begun := time.Now()
		_, err := c.Mutex("k", TTL(time.Hour)).Lock(ctx)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, time.Second, time.Since(begun), "prompt")
		f.set(func() { f.after = nil })
		time.Sleep(5 * time.Second)
		assert.False(t, f.Exists("k"))
	})
}

func TestLateRequestOfAGivenUpAttemptTakesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		first, err := c.Mutex("k", Fenced()).Lock(t.Context()) // so that the script is known
		require.NoError(t, err)
		require.NoError(t, first.Unlock(t.Context()))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		late := make(chan driver.Command, 10)
		f.set(func() {
			f.before = func(ctx context.Context, cmd driver.Command) error { late <- cmd; <-ctx.Done(); return ctx.Err() }
		})
		_, err = c.Mutex("k", Fenced()).Lock(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		f.set(func() { f.before = nil })
		time.Sleep(5 * time.Second)
		conn, err := f.Connect(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Do(t.Context(), <-late)
		require.NoError(t, err)
		assert.False(t, f.Exists("k"))
	})
}

func TestWaitErrorTellsBoth(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("holder"))
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		why := errors.New("shutting down")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Second, why)
		defer cancel()
		_, err = c.Mutex("k").Lock(ctx)
		assert.ErrorIs(t, err, why)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok)
		assert.Equal(t, "holder", locked.Holder.Label)
		assert.NotErrorIs(t, err, ErrUnavailable)

		_, err = c.Mutex("k", WaitTimeout(time.Second)).Lock(t.Context())
		assert.ErrorIs(t, err, ErrWaitTimeout)
		assert.ErrorIs(t, err, ErrLocked)
	})
}

func TestUnreachableIsNotLocked(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.connectErr = errors.New("connection refused")
		c := f.client(t)
		_, err := c.Mutex("k").Lock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable, "the first contact fails at once")
		assert.NotErrorIs(t, err, ErrLocked)

		f.set(func() { f.connectErr = nil })
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))

		for _, reply := range []string{"LOADING", "ERR max number of clients reached", "ERR max number of clients + cluster connections reached"} {
			f.refuse(reply)
			time.AfterFunc(time.Minute, func() { f.set(func() { f.before = nil }) })
			lease, err = c.Mutex("k").Lock(t.Context())
			require.NoError(t, err, "a later outage is waited out")
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

func TestRefusalIsNotWaitedFor(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for _, code := range []string{"NOPERM", "NOAUTH", "WRONGPASS", "OOM"} {
			f.set(func() {
				f.before = func(context.Context, driver.Command) error { return driver.NewServerError(code + " no") }
			})
			_, err := c.Mutex("k").Lock(t.Context())
			reply, ok := errors.AsType[*driver.ServerError](err)
			require.True(t, ok, "%v", err)
			assert.Equal(t, code, reply.Code)
			assert.NotErrorIs(t, err, ErrUnavailable)
		}
	})
}

func TestForeignValues(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		f.HSet("hash", "a", "b")
		_, err := c.Mutex("hash").Lock(t.Context())
		foreign, ok := errors.AsType[*ForeignError](err)
		require.True(t, ok, "%v", err)
		assert.Equal(t, "hash", foreign.Type)

		require.NoError(t, f.Set("string", "mine"))
		_, err = c.Mutex("string").Lock(t.Context())
		assert.ErrorIs(t, err, ErrForeign, "a foreign value without TTL is not waited for")
		_, err = c.ForceRelease(t.Context(), "string")
		assert.ErrorIs(t, err, ErrForeign)
		assert.True(t, f.Exists("string"))

		f.SetTTL("string", 3*time.Second)
		_, err = c.Mutex("string").TryLock(t.Context())
		locked, ok := errors.AsType[*LockedError](err)
		require.True(t, ok, "%v", err)
		assert.True(t, locked.Holder.Foreign)
		lease, err := c.Mutex("string").Lock(t.Context())
		require.NoError(t, err, "one with a TTL is")
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}

// The kind that a client's locks have unless they say otherwise is no mistake.
func TestTheKindOfALockComesBeforeThatOfTheClient(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Reentrant())
		for mode, opts := range map[Mode][]Option{Exclusive: {Reentrant(), Reentrant()}, Reading: {ForReading()}, Writing: {ForWriting()}} {
			lease := must(t, c.Mutex(string(mode), opts...))
			assert.Equal(t, mode, lease.Mode())
			assert.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

func TestAbandonedRecordWithoutTTLIsHealed(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		value := record(strings.Repeat("a", idLength), millis(time.Minute), "dead|")
		require.NoError(t, f.Set("k", value))
		begun := time.Now()
		lease, err := f.client(t).Mutex("k", TTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		assert.InDelta(t, time.Minute, time.Since(begun), float64(time.Second), "its holder may be alive: it gets its own TTL once more")
		assert.NoError(t, lease.Unlock(t.Context()))

		require.NoError(t, f.Set("k", value))
		_, err = f.client(t).Mutex("k", TTL(time.Hour)).TryLock(t.Context())
		assert.ErrorIs(t, err, ErrLocked)
		assert.Equal(t, time.Hour, f.TTL("k"), "or the longer one of whoever finds it")
	})
}

func TestFencingTokensGrow(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Fenced(), TTL(time.Second))
		var last Token
		for range 5 {
			lease, err := m.Lock(t.Context())
			require.NoError(t, err)
			require.Greater(t, lease.Token(), last)
			last = lease.Token()
			time.Sleep(3 * time.Second)
			require.Equal(t, last, lease.Token(), "renewal keeps the token")
			require.NoError(t, lease.Unlock(t.Context()))
		}
		// A stepped clock alone does not break the order.
		f.SetTime(time.Now().Add(-time.Hour))
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		assert.Equal(t, last+1, lease.Token())
	})
}

func TestExtendOnlyLengthens(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(10*time.Second), NoRenewal()).Lock(t.Context())
		require.NoError(t, err)
		d := lease.Deadline()
		require.NoError(t, lease.Extend(t.Context(), time.Second))
		assert.Equal(t, d, lease.Deadline())
		assert.Equal(t, 10*time.Second, f.TTL("k"))
		require.NoError(t, lease.Extend(t.Context(), time.Minute))
		assert.Equal(t, time.Minute, f.TTL("k"))
		assert.True(t, lease.Deadline().After(d.Add(40*time.Second)))
		value, _ := f.Get("k")
		assert.Contains(t, value, "|60000|", "the record tells its longest TTL")
		time.Sleep(50 * time.Second)
		assert.True(t, lease.Valid())
		time.Sleep(10 * time.Second)
		assert.ErrorIs(t, lease.Extend(t.Context(), time.Minute), ErrLost)
	})
}

func TestMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k", TTL(3*time.Second), MaxHold(10*time.Second)).Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		assert.Less(t, lease.Deadline().Sub(begun), 3*time.Second, "unless it is renewed before")
		<-lease.Context().Done()
		assert.Equal(t, 10*time.Second, time.Since(begun))
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrMaxHold)
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
		time.Sleep(3 * time.Second)
		assert.False(t, f.Exists("k"), "renewed no more")
	})
}

func TestDetachAndAttach(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		a, b := f.client(t, Label("a")), f.client(t, Label("b"))
		lease, err := a.Mutex("k", Fenced(), TTL(time.Second)).Lock(t.Context())
		require.NoError(t, err)
		id, err := lease.Detach(t.Context(), time.Minute)
		require.NoError(t, err)
		assert.False(t, lease.Valid())
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrReleased)
		time.Sleep(30 * time.Second)

		f.set(func() { f.after = once("EVALSHA", errLostReply) })
		taken, err := b.Mutex("k", Fenced(), TTL(time.Second)).Attach(t.Context(), id)
		require.NoError(t, err, "a lost reply does not matter")
		assert.Greater(t, taken.Token(), lease.Token())
		_, err = a.Mutex("k", Fenced()).Attach(t.Context(), id)
		assert.ErrorIs(t, err, ErrTaken, "one taker wins")
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrReleased, "the former handle is void")
		s, err := a.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, "b", s.Holders[0].Label)
		require.NoError(t, taken.Unlock(t.Context()))
		_, err = a.Mutex("k").Attach(t.Context(), id)
		assert.ErrorIs(t, err, ErrAbsent)
		_, err = a.Mutex("k").Attach(t.Context(), "nonsense")
		assert.ErrorIs(t, err, ErrInvalid)
	})
}

// It says of which one it is, and is left for that.
func TestDetachedLeaseOfTheOtherSideIsTaken(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		reader, writer := c.Mutex("k", ForReading()), c.Mutex("k", ForWriting())
		for side, m := range map[Mode][2]*Mutex{Reading: {reader, writer}, Writing: {writer, reader}} {
			id, err := must(t, m[0]).Detach(t.Context(), time.Minute)
			require.NoError(t, err)
			_, err = m[1].Attach(t.Context(), id)
			assert.ErrorIs(t, err, ErrTaken)
			assert.ErrorContains(t, err, "one for "+string(side))
			lease, err := m[0].Attach(t.Context(), id)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

func TestAttachOfUnknownOutcomeLeavesTheIdGood(t *testing.T) {
	for name, opts := range map[string][]Option{
		"plain": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "reader": {ForReading()},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				c := f.client(t)
				lease, err := c.Mutex("k", opts...).Lock(t.Context())
				require.NoError(t, err)
				id, err := lease.Detach(t.Context(), time.Minute)
				require.NoError(t, err)
				f.set(func() {
					f.after = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
				})
				m := c.Mutex("k", append(opts[:len(opts):len(opts)], TTL(2*time.Second))...)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err = m.Attach(ctx, id)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				f.set(func() { f.after = nil })
				time.Sleep(30 * time.Second) // The TTL of who did not come to have it is not that of the lease.
				_, err = m.Attach(t.Context(), id)
				require.NoError(t, err)
			})
		})
	}
}

func TestInspectAndForceRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"), Prefix("app:"))
		s, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.False(t, s.Held())
		lease, err := c.Mutex("k", Fenced(), Metadata("x")).Lock(t.Context())
		require.NoError(t, err)
		assert.True(t, f.Exists("app:k"))
		s, err = c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, []Holder{{Mode: Exclusive, Holds: 1, Label: "me", Metadata: "x", Token: lease.Token(), Remaining: 30 * time.Second, leases: fingerprint(lease.tenure.id)}}, s.Holders)
		h, err := c.ForceRelease(t.Context(), "k")
		require.NoError(t, err)
		assert.Equal(t, "me", h[0].Label)
		_, err = c.ForceRelease(t.Context(), "k")
		assert.ErrorIs(t, err, ErrAbsent)
		<-lease.Context().Done()
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
	})
}

func TestDo(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		boom := errors.New("boom")
		ctx, cancel := context.WithCancel(t.Context())
		err := c.Do(ctx, "k", func(ctx context.Context) error {
			lease, ok := FromContext(ctx)
			require.True(t, ok)
			require.True(t, lease.Valid())
			cancel()
			<-ctx.Done()
			return boom
		})
		assert.ErrorIs(t, err, boom)
		assert.False(t, f.Exists("k"), "a cancelled request does not leave the lock behind")

		assert.PanicsWithValue(t, "no", func() {
			c.Do(t.Context(), "k", func(context.Context) error { panic("no") })
		})
		assert.False(t, f.Exists("k"))

		err = c.Do(t.Context(), "k", func(ctx context.Context) error {
			f.Del("k")
			<-ctx.Done()
			assert.ErrorIs(t, context.Cause(ctx), ErrLost)
			return nil
		}, TTL(time.Second))
		assert.ErrorIs(t, err, ErrLost)
		assert.ErrorIs(t, c.Do(t.Context(), "k", nil), ErrInvalid)
	})
}

func TestClose(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		waiting := make(chan error)
		go func() {
			_, err := c.Mutex("k").Lock(t.Context())
			waiting <- err
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.NoError(t, c.Close())
		err = <-waiting
		assert.ErrorIs(t, err, ErrClosed)
		assert.ErrorIs(t, err, ErrLocked)
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrLost)
		assert.ErrorIs(t, context.Cause(lease.Context()), ErrClosed)
		assert.NoError(t, lease.Unlock(t.Context()), "Close released it")
		assert.False(t, f.Exists("k"))
		_, err = c.Mutex("k").Lock(t.Context())
		assert.ErrorIs(t, err, ErrClosed)
		_, err = c.Inspect(t.Context(), "k")
		assert.ErrorIs(t, err, ErrClosed)
	})
}

func TestCloseReportsWhatItCouldNotRelease(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("orders").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
		})
		err = c.Close()
		assert.ErrorIs(t, err, ErrUnknown)
		assert.ErrorContains(t, err, "orders")
	})
}

func TestBadInput(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Prefix("p:"))
		for what, m := range map[string]*Mutex{
			"empty name":    c.Mutex(""),
			"huge name":     c.Mutex(strings.Repeat("x", 2000)),
			"zero TTL":      c.Mutex("k", TTL(0)),
			"negative TTL":  c.Mutex("k", TTL(-time.Second)),
			"tiny TTL":      c.Mutex("k", TTL(time.Microsecond)),
			"short TTL":     c.Mutex("k", TTL(199*time.Millisecond)),
			"huge TTL":      c.Mutex("k", TTL(1<<63-1)),
			"no wait":       c.Mutex("k", WaitTimeout(0)),
			"no hold":       c.Mutex("k", MaxHold(-1)),
			"no attempt":    c.Mutex("k", AttemptTimeout(0)),
			"nil policy":    c.Mutex("k", Retry(nil)),
			"nil attempts":  c.Mutex("k", Retry(Attempts(3, nil))),
			"nil option":    c.Mutex("k", nil),
			"two kinds":     c.Mutex("k", Reentrant(), ForReading()),
			"kinds of two":  c.Mutex("k", ForWriting(), Fenced(), Reentrant()),
			"huge metadata": c.Mutex("k", Metadata(strings.Repeat("x", 5000))),
		} {
			_, err := m.Lock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid, what)
			_, err = m.TryLock(t.Context())
			assert.ErrorIs(t, err, ErrInvalid, what)
			_, err = m.Attach(t.Context(), strings.Repeat("0", 32))
			assert.ErrorIs(t, err, ErrInvalid, what)
		}
		assert.Empty(t, f.commands())
		_, err := New(nil)
		assert.ErrorIs(t, err, ErrInvalid)
		_, err = New(f, Label("a|b"))
		assert.ErrorIs(t, err, ErrInvalid)
		_, err = New(f, TTL(0))
		assert.ErrorIs(t, err, ErrInvalid)
		_, err = New(f, Reentrant(), ForWriting())
		assert.ErrorIs(t, err, ErrInvalid)
		assert.ErrorContains(t, err, "Reentrant and ForWriting make two kinds of lock")
		assert.ErrorContains(t, err, "without Reentrant", "who uses rwlock has given no ForWriting")
		_, err = New(f, Prefix("__golocker:"))
		assert.ErrorIs(t, err, ErrInvalid, "a reserved name")
		_, err = f.client(t).Mutex("__golocker:k").Lock(t.Context())
		assert.ErrorIs(t, err, ErrInvalid, "a reserved name")

		for _, name := range []string{"{", "}", "{}", "a}b", "{a", "{a}b", "a\x00b", "\r\n", "\xff"} {
			lease, err := c.Mutex(name, Fenced()).Lock(t.Context())
			require.NoError(t, err, "%q", name)
			require.NoError(t, lease.Unlock(t.Context()), "%q", name)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		f.reset()
		_, err = c.Mutex("k").Lock(ctx)
		assert.ErrorIs(t, err, context.Canceled)
		assert.Empty(t, f.commands())
	})
}

func TestDoAllowsWorkToGiveTheLeaseAway(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		assert.NoError(t, c.Do(t.Context(), "k", func(ctx context.Context) error {
			lease, _ := FromContext(ctx)
			return lease.Unlock(ctx)
		}))
		assert.NoError(t, c.Do(t.Context(), "k", func(ctx context.Context) error {
			lease, _ := FromContext(ctx)
			_, err := lease.Detach(ctx, time.Minute)
			return err
		}))
		assert.True(t, f.Exists("k"))
	})
}

func TestCtxEndWhileLockedIsAWaitError(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		f.set(func() {
			f.after = func(context.Context, driver.Command) error { cancel(); return nil }
		})
		_, err = c.Mutex("k", Retry(Constant(time.Second))).Lock(ctx)
		_, ok := errors.AsType[*WaitError](err)
		assert.True(t, ok, "%v", err)
		assert.ErrorIs(t, err, ErrLocked)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestUnlockOnAClosedConnectionReturnsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		lease, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		f.set(func() {
			f.before = func(context.Context, driver.Command) error { return driver.NotSent(driver.ErrClosed) }
		})
		begun := time.Now()
		assert.ErrorIs(t, lease.Unlock(t.Context()), ErrUnknown)
		assert.Zero(t, time.Since(begun))
	})
}

func TestUnlockErrorMatchesTheContextsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		why := errors.New("shutting down")
		for _, want := range []error{context.DeadlineExceeded, why} {
			lease, err := c.Mutex(newID()).Lock(t.Context())
			require.NoError(t, err)
			f.set(func() {
				f.before = func(ctx context.Context, _ driver.Command) error { <-ctx.Done(); return ctx.Err() }
			})
			ctx, cancel := context.WithCancelCause(t.Context())
			if want == why {
				time.AfterFunc(time.Second, func() { cancel(why) })
			} else {
				var stop context.CancelFunc
				ctx, stop = context.WithTimeout(ctx, time.Second)
				defer stop()
			}
			begun := time.Now()
			err = lease.Unlock(ctx)
			assert.Equal(t, time.Second, time.Since(begun))
			assert.ErrorIs(t, err, ErrUnknown)
			assert.ErrorIs(t, err, want)
			cancel(nil)
			f.set(func() { f.before = nil })
		}
	})
}
