package integration_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// No goroutine, connection, channel or key of a client outlives its Close,
// whatever was going on.
func TestNothingIsLeftAfterCloseInTheMidstOfEverything(t *testing.T) {
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		for _, name := range []string{"all well", "faults"} {
			t.Run(name, func(t *testing.T) {
				srv := servertest.Single(t)
				w, addr := newWire(t, srv.Addr)
				before := goleak.IgnoreCurrent()
				t.Run("client", func(t *testing.T) { // whose end closes a wrapped client
					c := d.client(t, addr, locker.TTL(2*time.Second), locker.AttemptTimeout(300*time.Millisecond))
					connect(t, c)
					busy(t, c, w, name == "faults")
				})
				eventually(t, "all connections are closed", func() bool { return w.Open() == 0 })
				require.NoError(t, w.Close()) // its goroutines are not the client's
				goleak.VerifyNone(t, before)
				eventually(t, "all locks are free", func() bool { return len(keys(t, srv)) == 0 })
				eventually(t, "nobody is subscribed", func() bool {
					return len(do(t, srv, "PUBSUB", "CHANNELS").([]any)) == 0
				})
			})
		}
	})
}

// busy closes a client that holds locks, waits for others, asks for some, gives
// some up and hands some over.
func busy(t *testing.T, c *locker.Client, w *wire.Wire, faults bool) {
	mustTryLock(t, c.Mutex("held by us"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	var waiting []<-chan lockResult
	for range 5 {
		waiting = append(waiting, goLock(t.Context(), c.Mutex("held by us")))
	}
	for i := range 6 {
		all.Go(func() {
			for ctx.Err() == nil {
				name := numbered("k", rand.IntN(3))
				if i == 0 {
					name = numbered("held", rand.Int())
				}
				lease, err := c.Mutex(name, locker.Fenced()).Lock(ctx)
				if errors.Is(err, locker.ErrClosed) {
					return
				}
				if err != nil {
					assert.True(t, faults || ctx.Err() != nil, "%v", err)
					continue
				}
				_ = lease.Context()
				if i == 0 { // held until Close
					<-time.After(10 * time.Millisecond)
					continue
				}
				_ = lease.Unlock(ctx)
			}
		})
	}
	if faults {
		all.Go(func() { trouble(ctx, w) })
	}
	<-time.After(500 * time.Millisecond)
	if !faults {
		// In the midst of it, with all that is in flight.
		var err error
		took := timed(func() { err = c.Close() })
		assert.NoError(t, err)
		assert.Less(t, took, patience/2)
		cancel()
	} else {
		cancel()
		all.Wait() // trouble is over, though not all that it did may have come to pass
		if err := c.Close(); err != nil {
			assert.ErrorIs(t, err, locker.ErrUnknown)
		}
	}
	for _, done := range waiting {
		r := <-done
		assert.ErrorIs(t, r.err, locker.ErrClosed)
	}
	all.Wait()
	_, err := c.Mutex("k").TryLock(t.Context())
	assert.ErrorIs(t, err, locker.ErrClosed)
	if err := c.Close(); !faults {
		assert.NoError(t, err, "the second time")
	}
}

// A release that Close makes and whose reply is lost is made again, for there is
// time.
func TestCloseReleasesAlthoughAConnectionBreaks(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		for _, loss := range []wire.Action{wire.CutRequest, wire.CutReply} {
			srv := servertest.Single(t)
			w, addr := newWire(t, srv.Addr)
			c := d.client(t, addr, locker.TTL(time.Minute))
			require.NoError(t, mustTryLock(t, c.Mutex("warm")).Unlock(soon(t)))
			for i := range 5 {
				mustTryLock(t, c.Mutex(numbered("k", i)))
			}
			lost := w.On(wire.Match{Name: "EVALSHA", Arg: "k-"}, loss)
			assert.NoError(t, c.Close())
			assert.Equal(t, 1, lost.Applied())
			assert.Empty(t, keys(t, srv))
		}
	})
}

// Close does not wait for a server that hangs for longer than it says, nor leaves
// anything behind then. All drivers at the same time, for it takes a while.
func TestCloseWithAFrozenServerIsBoundedAndLeavesNothing(t *testing.T) {
	servers := servertest.Servers(t, len(drivers))
	before := goleak.IgnoreCurrent()
	var all sync.WaitGroup
	for i, d := range drivers {
		srv := servers[i]
		c := d.client(t, srv.Addr, locker.TTL(2*time.Second))
		lease := mustTryLock(t, c.Mutex("k"))
		waiting := goLockWaiting(t, t.Context(), c.Mutex("k"), c)
		srv.Pause()
		t.Cleanup(srv.Resume)
		all.Go(func() {
			var err error
			took := timed(func() { err = c.Close() })
			assert.ErrorIs(t, err, locker.ErrUnknown, d.name)
			assert.ErrorContains(t, err, `"k"`, d.name)
			assert.Less(t, took, patience, d.name)
			assert.ErrorIs(t, context.Cause(lease.Context()), locker.ErrLost, d.name)
			assert.ErrorIs(t, (<-waiting).err, locker.ErrClosed, d.name)
		})
	}
	all.Wait()
	goleak.VerifyNone(t, before)
	for _, srv := range servers {
		srv.Resume()
		eventuallyWithin(t, 5*time.Second, "the TTL frees the lock", func() bool { return !exists(t, srv, "k") })
	}
}
