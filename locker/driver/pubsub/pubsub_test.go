package pubsub_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// run runs test in a bubble of its own and closes the Subscription at its end.
func run(t *testing.T, test func(t *testing.T, srv *server, sub *pubsub.Subscription)) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{}
		sub := pubsub.New(srv.dial)
		defer func() {
			assert.NoError(t, sub.Close())
			assert.Zero(t, srv.open(), "connections left open")
		}()
		test(t, srv, sub)
	})
}

// start calls f in a goroutine and returns where its result will be.
func start(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

func requirePending(t *testing.T, result <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-result:
		require.Fail(t, "returned too early", "with %v", err)
	default:
	}
}

func requireMessage(t *testing.T, sub *pubsub.Subscription, channel, payload string) {
	t.Helper()
	got, err := sub.Receive(t.Context())
	require.NoError(t, err)
	require.Equal(t, driver.Message{Channel: channel, Payload: payload}, got)
}

func requireGap(t *testing.T, sub *pubsub.Subscription) {
	t.Helper()
	got, err := sub.Receive(t.Context())
	require.ErrorIs(t, err, driver.ErrGap, "got message %+v", got)
}

// requireNothing asserts that Receive has nothing to return.
func requireNothing(t *testing.T, sub *pubsub.Subscription) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	got, err := sub.Receive(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded, "got message %+v", got)
}

func TestNewDoesNotConnect(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		requireNothing(t, sub)
		require.NoError(t, sub.Remove(t.Context(), "a"))
		require.NoError(t, sub.Add(t.Context()))
		assert.Zero(t, srv.dialCount())
	})
}

func TestAddReturnsAfterEveryAcknowledgement(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.held = true
		added := start(func() error { return sub.Add(t.Context(), "a", "b", "a") })
		requirePending(t, added)
		srv.release()
		require.NoError(t, <-added)
		srv.publish("a", "1")
		srv.publish("b", "2")
		requireMessage(t, sub, "a", "1")
		requireMessage(t, sub, "b", "2")
		requireNothing(t, sub)
	})
}

func TestAddWaitsForTheLastChannel(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.silent = true
		added := start(func() error { return sub.Add(t.Context(), "a", "b") })
		requirePending(t, added)
		srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: "a"})
		requirePending(t, added)
		srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: "b"})
		require.NoError(t, <-added)
	})
}

func TestConcurrentAddsOfOneChannel(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { assert.NoError(t, sub.Add(t.Context(), "a")) })
		}
		wg.Wait()
		srv.publish("a", "1")
		requireMessage(t, sub, "a", "1")
		requireNothing(t, sub)
		assert.Equal(t, 1, srv.dialCount())
	})
}

func TestRemoveReturnsAfterTheAcknowledgement(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		srv.set(func() { srv.held = true })
		removed := start(func() error { return sub.Remove(t.Context(), "a") })
		requirePending(t, removed)
		srv.release()
		require.NoError(t, <-removed)
		srv.publish("a", "1")
		srv.publish("b", "2")
		requireMessage(t, sub, "b", "2")
	})
}

func TestRemoveOfNothingLeavesTheRest(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		require.NoError(t, sub.Remove(t.Context()))
		require.NoError(t, sub.Remove(t.Context(), "never added"))
		assert.Equal(t, 1, srv.subscribers("a"))
	})
}

func TestRemovedChannelStaysAwayAfterReconnect(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		require.NoError(t, sub.Remove(t.Context(), "a"))
		srv.cut()
		requireGap(t, sub)
		assert.Zero(t, srv.subscribers("a"))
		assert.Equal(t, 1, srv.subscribers("b"))
	})
}

func TestRemoveWithoutConnectionForgets(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		srv.set(func() { srv.dialErr = errRefused })
		srv.cut()
		synctest.Wait()
		require.NoError(t, sub.Remove(t.Context(), "a"))
		srv.set(func() { srv.dialErr = nil })
		requireGap(t, sub)
		assert.Zero(t, srv.subscribers("a"))
		assert.Equal(t, 1, srv.subscribers("b"))
	})
}

func TestRemoveEndsWithItsConnection(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		srv.set(func() { srv.silent = true })
		removed := start(func() error { return sub.Remove(t.Context(), "a") })
		requirePending(t, removed)
		srv.set(func() { srv.silent = false })
		srv.cut()
		require.NoError(t, <-removed)
		requireGap(t, sub)
		assert.Zero(t, srv.subscribers("a"))
	})
}

func TestAddWaitsThroughReconnects(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.dialErr = errRefused })
		srv.cut()
		synctest.Wait()
		added := start(func() error { return sub.Add(t.Context(), "b") })
		time.Sleep(10 * time.Second)
		requirePending(t, added)
		srv.set(func() { srv.dialErr = nil })
		require.NoError(t, <-added)
		assert.Equal(t, 1, srv.subscribers("b"))
	})
}

func TestAddInFlightIsSentAgain(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent = true })
		added := start(func() error { return sub.Add(t.Context(), "b") })
		requirePending(t, added)
		srv.set(func() { srv.silent = false })
		srv.cut()
		require.NoError(t, <-added)
		assert.Equal(t, 1, srv.subscribers("b"))
		requireGap(t, sub)
		requireNothing(t, sub)
	})
}

func TestLateAcknowledgementIsNotKept(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.held = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, sub.Add(ctx, "b"), context.DeadlineExceeded)
		srv.release()
		synctest.Wait()
		srv.cut()
		requireGap(t, sub)
		assert.Zero(t, srv.subscribers("b"), "an Add that gave up came back")
	})
}

// The slice is the caller's again when Remove returns, before its reply comes.
func TestRequestsKeepNoSlice(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		srv.set(func() { srv.held = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		channels := []string{"a"}
		require.ErrorIs(t, sub.Remove(ctx, channels...), context.DeadlineExceeded)
		channels[0] = "b"
		srv.release()
		synctest.Wait()
		srv.cut()
		requireGap(t, sub)
		assert.Zero(t, srv.subscribers("a"))
		assert.Equal(t, 1, srv.subscribers("b"))
	})
}

func TestAcknowledgementsInAnyOrder(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.silent = true
		added := start(func() error { return sub.Add(t.Context(), "a", "b", "c") })
		for _, channel := range []string{"c", "a", "b"} {
			requirePending(t, added)
			srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: channel})
		}
		require.NoError(t, <-added)
		assert.Equal(t, 1, srv.dialCount())
	})
}
