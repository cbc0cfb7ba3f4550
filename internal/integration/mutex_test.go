package integration_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// redsync: "a shared Mutex's late Unlock deletes the next holder's key and says ok".
func TestLateUnlockDoesNotDeleteTheNextHoldersKey(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		m := d.client(t, srv.Addr).Mutex("k", locker.TTL(renewedTTL), locker.NoRenewal())
		late := mustTryLock(t, m)
		next := mustLock(t, m) // the same Mutex, shared
		require.False(t, late.Valid())
		assert.ErrorIs(t, late.Unlock(soon(t)), locker.ErrTaken)
		assert.ErrorIs(t, late.Unlock(soon(t)), locker.ErrTaken, "the second time")
		assert.True(t, next.Valid())
		assert.NoError(t, next.Unlock(soon(t)))

		alone := mustTryLock(t, m)
		eventually(t, "the lease has run out", func() bool { return !exists(t, srv, "k") })
		assert.ErrorIs(t, alone.Unlock(soon(t)), locker.ErrAbsent)
	})
}

// redislock: "token prefix compare lets worker-1 steal from worker-10".
func TestAnIDThatBeginsWithOursIsNotOurs(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		ten := d.client(t, srv.Addr, locker.Label("worker-10"), locker.Metadata("job"))
		one := d.client(t, srv.Addr, locker.Label("worker-1"), locker.Metadata("job"))
		lease := mustTryLock(t, ten.Mutex("k"))
		_, err := one.Mutex("k").TryLock(soon(t))
		var locked *locker.LockedError
		require.ErrorAs(t, err, &locked)
		assert.Equal(t, "worker-10", locked.Holder.Label)
		require.NoError(t, lease.Unlock(soon(t)))

		// Even if somebody had an id that begins with ours, or ours with theirs.
		for _, change := range []func(id string) string{
			func(id string) string { return id + "0" },
			func(id string) string { return id[:len(id)-1] },
		} {
			lease := mustTryLock(t, one.Mutex("k"))
			record := do(t, srv, "GET", "k").(string)
			id := record[len("gl1|m|") : len("gl1|m|")+32]
			other := "gl1|m|" + change(id) + record[len("gl1|m|")+32:]
			do(t, srv, "SET", "k", other, "PX", "60000")
			assert.ErrorIs(t, lease.Extend(soon(t), time.Minute), locker.ErrTaken)
			assert.ErrorIs(t, lease.Unlock(soon(t)), locker.ErrTaken)
			assert.Equal(t, other, do(t, srv, "GET", "k"))
			do(t, srv, "DEL", "k")
		}
	})
}

// redislock: "TTL below 1 ms or negative succeeds with no key".
func TestATTLThatCannotBeIsRefusedAndNothingIsSent(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr)
		held := mustTryLock(t, c.Mutex("held"))
		before := w.Count(wire.Match{})
		for _, ttl := range []time.Duration{0, -1, -time.Second, 1, 500 * time.Microsecond, time.Millisecond,
			locker.MinTTL - 1, locker.MaxTTL + 1, -1 << 63, 1<<63 - 1} {
			m := c.Mutex("k", locker.TTL(ttl))
			_, err := m.Lock(soon(t))
			assert.ErrorIs(t, err, locker.ErrInvalid, "Lock, %v", ttl)
			_, err = m.TryLock(soon(t))
			assert.ErrorIs(t, err, locker.ErrInvalid, "TryLock, %v", ttl)
			err = m.Do(soon(t), func(context.Context) error { assert.Fail(t, "work ran", "%v", ttl); return nil })
			assert.ErrorIs(t, err, locker.ErrInvalid, "Do, %v", ttl)
			assert.ErrorIs(t, held.Extend(soon(t), ttl), locker.ErrInvalid, "Extend, %v", ttl)
			_, err = held.Detach(soon(t), ttl)
			assert.ErrorIs(t, err, locker.ErrInvalid, "Detach, %v", ttl)
		}
		assert.Equal(t, before, w.Count(wire.Match{}), "something was sent")
		assert.True(t, held.Valid())
		assert.Equal(t, []string{"held"}, keys(t, srv))
	})
}

// "PEXPIRE 0 deletes the key; 500 µs truncates to 0": no TTL on the wire is below
// the smallest, and a fraction of a millisecond never lengthens the holder's
// belief beyond the server's lease.
func TestFractionsOfAMillisecondAreNeverSent(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(locker.MinTTL+999*time.Microsecond), locker.NoRenewal())
		connect(t, c)
		for _, opts := range [][]locker.Option{nil, {locker.Fenced()}} {
			var lease *locker.Lease
			var left int64
			eventually(t, "the machine is not too busy for so short a TTL", func() bool {
				var err error
				if lease, err = c.Mutex("k", opts...).Lock(soon(t)); err != nil {
					require.ErrorIs(t, err, locker.ErrUnavailable)
					return false
				}
				left = do(t, srv, "PTTL", "k").(int64)
				return left > 0
			})
			assert.LessOrEqual(t, left, locker.MinTTL.Milliseconds())
			assert.Less(t, time.Until(lease.Deadline()), time.Duration(left)*time.Millisecond)
			_ = lease.Extend(soon(t), locker.MinTTL+time.Microsecond)
			_ = lease.Unlock(soon(t))
		}
		sets := 0
		for _, set := range w.Requests(wire.Match{Name: "SET"}) {
			if !slices.Contains(set.Args, "k") {
				continue // that by which the client has connected
			}
			sets++
			ttl, err := strconv.Atoi(set.Args[len(set.Args)-1])
			require.NoError(t, err)
			assert.Equal(t, int(locker.MinTTL.Milliseconds()), ttl)
		}
		assert.NotZero(t, sets)
	})
}

// redislock: "a reused retry option gets no retries the second time".
func TestARetryOptionCanBeReused(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		holder := d.client(t, srv.Addr)
		mustTryLock(t, holder.Mutex("a"))
		mustTryLock(t, holder.Mutex("b"))
		retry := locker.Retry(locker.Attempts(4, locker.Constant(5*time.Millisecond)))
		c := d.client(t, addr, retry)
		attempts := func(name string) int {
			return w.Count(wire.Match{Name: "EVALSHA", Arg: name}) + w.Count(wire.Match{Name: "EVAL", Arg: name})
		}
		mutex := c.Mutex("a", retry)
		_, err := mutex.Lock(soon(t))
		require.ErrorIs(t, err, locker.ErrLocked)
		first := attempts("a")
		require.GreaterOrEqual(t, first, 4)
		for n := 2; n <= 4; n++ {
			_, err := mutex.Lock(soon(t))
			require.ErrorIs(t, err, locker.ErrLocked)
			require.GreaterOrEqual(t, attempts("a"), n*4, "use %d of the option has had no retries", n)
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				_, err := c.Mutex("b").Lock(soon(t))
				assert.ErrorIs(t, err, locker.ErrLocked)
			})
		}
		all.Wait()
		assert.GreaterOrEqual(t, attempts("b"), 5*4)
	})
}

// "others: renewal bound to the acquire ctx".
func TestRenewalIsNotBoundToTheContextOfLock(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		ctx, cancel := context.WithCancel(t.Context())
		locked, err := c.Mutex("a").Lock(ctx)
		require.NoError(t, err)
		tried, err := c.Mutex("b").TryLock(ctx)
		require.NoError(t, err)
		cancel()
		lasts(t, 2*time.Second, func() {
			require.NoError(t, locked.Err())
			require.NoError(t, tried.Err())
		})
		assert.NoError(t, locked.Context().Err())
		assert.NoError(t, locked.Unlock(soon(t)))
		assert.NoError(t, tried.Unlock(soon(t)))
	})
}

// rueidislock: "expiry by client wall clock". Whatever is sent, none of it is a
// time of this machine's clock: the server alone decides when a lease ends.
func TestNoClientClockIsSent(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(renewedTTL))
		observer := d.client(t, srv.Addr)
		for _, opts := range [][]locker.Option{nil, {locker.Fenced()}} {
			lease := mustTryLock(t, c.Mutex("k", opts...))
			waiting := goLockWaiting(t, soon(t), c.Mutex("k", opts...), observer)
			require.NoError(t, lease.Extend(soon(t), 500*time.Millisecond))
			id, err := lease.Detach(soon(t), time.Second)
			require.NoError(t, err)
			again, err := c.Mutex("k", opts...).Attach(soon(t), id)
			require.NoError(t, err)
			require.NoError(t, again.Unlock(soon(t)))
			require.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
		}
		now := time.Now()
		for _, request := range w.Requests(wire.Match{}) {
			for _, arg := range request.Args {
				n, err := strconv.ParseFloat(arg, 64)
				if err != nil || n == 0 {
					continue
				}
				for _, at := range []int64{int64(n) * 1e9, int64(n) * 1e6, int64(n) * 1e3, int64(n)} {
					apart := now.Sub(time.Unix(0, at)).Abs()
					assert.Greater(t, apart, 30*24*time.Hour, "%s was sent %s, a time", request.Args[0], arg)
				}
			}
		}
	})
}

// rueidislock: "release blocked 5 s, returns no error".
func TestReleaseIsBoundedAndSaysWhatIsNotKnown(t *testing.T) {
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		lease := mustTryLock(t, c.Mutex("k"))
		srv.Pause()
		t.Cleanup(srv.Resume)
		var err error
		took := timed(func() { err = lease.Unlock(context.Background()) })
		assert.ErrorIs(t, err, locker.ErrUnknown)
		assert.Less(t, took, patience/2)
		assert.False(t, lease.Valid())
		srv.Resume()
		eventually(t, "the release gets through", func() bool { return !exists(t, srv, "k") })
		assert.NoError(t, lease.Unlock(soon(t)), "it was ours until we released it")
	})
}

// What was sent for an attempt that is over takes nothing, however late it
// arrives; SET NX, which cannot know, takes the lock for one TTL at the most.
func TestARequestThatArrivesLateLeavesNothing(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		w, addr := newWire(t, srv.Addr)
		c := d.client(t, addr, locker.TTL(time.Second))
		connect(t, c)
		require.NoError(t, mustTryLock(t, c.Mutex("warm", locker.Fenced())).Unlock(soon(t)))
		for name, opts := range map[string][]locker.Option{"SET": nil, "EVALSHA": {locker.Fenced()}} {
			late := w.On(wire.Match{Name: name, Arg: "late"}, wire.HoldRequest)
			ctx, giveUp := context.WithCancel(soon(t))
			go func() {
				defer giveUp()
				select {
				case <-late.Happened():
				case <-ctx.Done():
				}
			}()
			_, err := c.Mutex("late", opts...).TryLock(ctx)
			require.ErrorIs(t, err, context.Canceled)
			if d.name != "rueidis" { // whose connection has the held request before everything else
				eventually(t, "the attempt is given up", func() bool {
					return w.Count(wire.Match{Name: "EVALSHA", Arg: ":v:"}) > 0
				})
			}
			late.Release()
			eventuallyWithin(t, 5*time.Second, "the late request has arrived", func() bool {
				return w.Requests(wire.Match{Name: name, Arg: "late"})[0].Forwarded == 1
			})
			eventuallyWithin(t, 3*time.Second, "nothing is left", func() bool { return !exists(t, srv, "late") })
			require.NoError(t, mustLock(t, c.Mutex("late", opts...)).Unlock(soon(t)))
			assertMortal(t, srv)
		}
	})
}
