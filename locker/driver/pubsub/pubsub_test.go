package pubsub_test

import (
	"context"
	"fmt"
	"strconv"
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

func TestNoPermFailsItsOwnAddOnly(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.denied = map[string]bool{"secret": true}
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.held = true })
		before := start(func() error { return sub.Add(t.Context(), "b") })
		requirePending(t, before)
		refused := start(func() error { return sub.Add(t.Context(), "c", "secret") })
		requirePending(t, refused)
		after := start(func() error { return sub.Add(t.Context(), "d") })
		requirePending(t, after)
		srv.release()

		require.NoError(t, <-before)
		err := <-refused
		reply, ok := err.(*driver.ServerError)
		require.True(t, ok, "got %T %v", err, err)
		assert.Equal(t, "NOPERM", reply.Code)
		assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err))
		require.NoError(t, <-after)

		assert.Equal(t, 1, srv.dialCount(), "the refusal cost the connection")
		srv.cut()
		requireGap(t, sub)
		assert.Equal(t, []int{1, 1, 0, 1}, []int{srv.subscribers("a"), srv.subscribers("b"), srv.subscribers("c"), srv.subscribers("d")})
	})
}

func TestNoPermOnTheFirstAdd(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.denied = map[string]bool{"a": true}
		err := sub.Add(t.Context(), "a")
		assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err), "%v", err)
		requireNothing(t, sub)
		assert.Equal(t, 1, srv.dialCount())
	})
}

func TestFirstDialErrorShowsAtOnce(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.dialErr = errRefused
		began := time.Now()
		err := sub.Add(t.Context(), "a")
		require.ErrorIs(t, err, errRefused)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Zero(t, time.Since(began))

		time.Sleep(time.Hour)
		assert.Equal(t, 1, srv.dialCount(), "dialled although nobody asks")

		srv.set(func() { srv.dialErr = nil })
		require.NoError(t, sub.Add(t.Context(), "a"))
		requireNothing(t, sub) // nothing was subscribed, nothing can be missed
	})
}

func TestFirstConnectionThatBreaksShowsAtOnce(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.dropAfter = 1
		err := sub.Add(t.Context(), "a")
		require.Error(t, err)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
	})
}

func TestAddAfterFailedDialWaitsOutThePause(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.dialErr = errRefused
		began := time.Now()
		for time.Since(began) < time.Minute {
			require.ErrorIs(t, sub.Add(t.Context(), "a"), errRefused)
		}
		assert.Less(t, srv.dialCount(), 300, "dials in a minute")
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

func TestAddHonoursItsContext(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		err := sub.Add(cancelled, "a")
		require.ErrorIs(t, err, context.Canceled)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		assert.Zero(t, srv.dialCount())

		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = sub.Add(ctx, "b")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err), "it was sent")

		srv.set(func() { srv.dialErr = errRefused })
		srv.cut()
		synctest.Wait()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err = sub.Add(ctx, "c")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, errRefused.Error(), "why it waited")
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))

		srv.set(func() { srv.dialErr, srv.silent = nil, false })
		requireGap(t, sub)
		assert.Equal(t, 1, srv.subscribers("a"))
		assert.Zero(t, srv.subscribers("b"), "an Add that gave up came back")
		assert.Zero(t, srv.subscribers("c"), "an Add that gave up came back")
	})
}

// The reply to an Add that gave up must not pass for the reply to the next.
func TestRepliesStayWithTheirRequests(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.denied = map[string]bool{"secret": true}
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.held = true })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, sub.Add(ctx, "secret"), context.DeadlineExceeded)
		added := start(func() error { return sub.Add(t.Context(), "b") })
		requirePending(t, added)
		srv.release()
		require.NoError(t, <-added)
	})
}

func TestReconnectGivesOneGapInOrder(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		srv.publish("a", "before")
		synctest.Wait()
		srv.cut()
		for srv.subscribers("b") == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		srv.publish("b", "after")
		requireMessage(t, sub, "a", "before")
		requireGap(t, sub)
		requireMessage(t, sub, "b", "after")
		requireNothing(t, sub)
	})
}

func TestGapWaitsForTheLastChannel(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		const n = 1000 // more than one SUBSCRIBE's worth
		channels := make([]string, n)
		for i := range n {
			channels[i] = fmt.Sprintf("c%04d", i)
		}
		require.NoError(t, sub.Add(t.Context(), channels...))
		srv.set(func() { srv.silent = true })
		srv.cut()
		time.Sleep(time.Second)
		for _, c := range channels[:n-1] {
			srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: c})
		}
		srv.push(pubsub.Event{Kind: pubsub.Message, Channel: channels[0], Payload: "early"})
		requireMessage(t, sub, channels[0], "early")
		requireNothing(t, sub)
		srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: channels[n-1]})
		requireGap(t, sub)
		requireNothing(t, sub)
	})
}

func TestReconnectStorm(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		before := srv.dialCount()
		srv.set(func() { srv.dropAfter = 1 }) // every connection breaks at once
		srv.cut()
		time.Sleep(time.Minute)
		dials := srv.dialCount() - before
		assert.Less(t, dials, 300, "reconnects too fast")
		assert.Greater(t, dials, 50, "reconnects too slowly")
		requireNothing(t, sub)

		srv.set(func() { srv.dropAfter = 2 }) // acknowledges, and breaks at the next command
		began := time.Now()
		for srv.subscribers("a") == 0 {
			time.Sleep(time.Millisecond)
		}
		assert.LessOrEqual(t, time.Since(began), pubsub.MaxPause+time.Millisecond)
		srv.set(func() { srv.dropAfter = 0 })
		requireGap(t, sub)
		requireNothing(t, sub)
	})
}

// A server that subscribes and then breaks the connection, again and again.
func TestShortLivedConnectionsAreNoReasonToHurry(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		began := time.Now()
		for time.Since(began) < time.Minute {
			srv.cut()
			requireGap(t, sub)
		}
		assert.Less(t, srv.dialCount(), 300, "dials in a minute")

		time.Sleep(pubsub.MaxPause)
		srv.cut()
		began = time.Now()
		requireGap(t, sub)
		assert.LessOrEqual(t, time.Since(began), pubsub.MinPause, "a connection that lived is replaced at once")
	})
}

func TestRefusedResubscriptionBacksOff(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a", "b"))
		srv.set(func() { srv.denied = map[string]bool{"b": true} })
		srv.cut()
		added := start(func() error { return sub.Add(t.Context(), "c") })
		time.Sleep(time.Minute)
		requirePending(t, added)
		assert.Less(t, srv.dialCount(), 300, "dials in a minute")
		requireNothing(t, sub)

		srv.set(func() { srv.denied = nil })
		require.NoError(t, <-added)
		requireGap(t, sub)
		requireNothing(t, sub)
		assert.Equal(t, 1, srv.subscribers("b"))
	})
}

func TestIdleConnectionIsKeptByPings(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		time.Sleep(time.Minute)
		assert.Equal(t, 1, srv.dialCount())
		assert.InDelta(t, 12, srv.count("PING"), 1)
		requireNothing(t, sub)
	})
}

func TestMessagesMakePingsNeedless(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		for i := range 60 {
			time.Sleep(time.Second)
			srv.publish("a", strconv.Itoa(i))
			requireMessage(t, sub, "a", strconv.Itoa(i))
		}
		assert.Zero(t, srv.count("PING"))
	})
}

// A server whose ACL forbids PING answers it, which is all that is asked.
func TestRefusedPingIsLife(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent = true })
		for range 10 {
			time.Sleep(pubsub.PingAfter)
			synctest.Wait()
			srv.set(func() {
				srv.conns[0].reply(reply{err: driver.NewServerError("NOPERM this user has no permissions to run the 'ping' command")})
			})
		}
		assert.Equal(t, 1, srv.dialCount())
		assert.Equal(t, 10, srv.count("PING"))
	})
}

func TestBlackHole(t *testing.T) {
	holes := map[string]func(*server){
		"swallows everything":  func(s *server) { s.silent = true },
		"takes no bytes":       func(s *server) { s.stuck = true },
		"swallows dials first": func(s *server) { s.silent, s.dialHangs = true, true },
	}
	for name, open := range holes {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
				require.NoError(t, sub.Add(t.Context(), "a"))
				time.Sleep(pubsub.PingAfter - time.Nanosecond) // the worst moment
				began := time.Now()
				srv.set(func() { open(srv) })
				added := start(func() error { return sub.Add(t.Context(), "b") })
				time.Sleep(pubsub.DeadAfter - pubsub.PingAfter)
				srv.set(func() { srv.silent, srv.stuck, srv.dialHangs = false, false, false })
				requireGap(t, sub)
				assert.LessOrEqual(t, time.Since(began), 15*time.Second)
				require.NoError(t, <-added)
				assert.Equal(t, 1, srv.subscribers("a"))
				assert.Equal(t, 1, srv.open())
			})
		})
	}
}

func TestBlackHoleFromTheStart(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.silent = true
		began := time.Now()
		require.ErrorContains(t, sub.Add(t.Context(), "a"), "silent")
		assert.LessOrEqual(t, time.Since(began), 15*time.Second)
	})
}

func TestHangingDialIsBounded(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.dialHangs = true
		began := time.Now()
		require.ErrorIs(t, sub.Add(t.Context(), "a"), context.DeadlineExceeded)
		assert.Equal(t, pubsub.DialTimeout, time.Since(began))
	})
}

func TestSlowConsumerGetsAGapInPlaceOfWhatWasDropped(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		publish := func(from, to int) {
			for i := from; i < to; i++ {
				srv.publish("a", strconv.Itoa(i))
			}
			synctest.Wait()
		}
		publish(0, pubsub.MaxBuffered+500)
		require.NoError(t, sub.Add(t.Context(), "b"), "Add is stuck behind messages")
		srv.cut() // its gap and that of the drop are one
		time.Sleep(pubsub.MaxPause)
		requireMessage(t, sub, "a", "0")
		publish(9000, 9002) // one fits, one does not
		for i := range pubsub.MaxBuffered - 1 {
			requireMessage(t, sub, "a", strconv.Itoa(i+1))
		}
		requireGap(t, sub)
		requireMessage(t, sub, "a", "9000")
		requireGap(t, sub)
		requireNothing(t, sub)
		publish(0, 1)
		requireMessage(t, sub, "a", "0")
	})
}

func TestReceiveLosesNothingWhenItsContextEnds(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		const n = 200
		published := start(func() error {
			for i := range n {
				time.Sleep(time.Millisecond)
				srv.publish("a", strconv.Itoa(i))
			}
			return nil
		})
		for next := 0; next < n; {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			got, err := sub.Receive(ctx)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				continue
			}
			require.Equal(t, strconv.Itoa(next), got.Payload)
			next++
		}
		require.NoError(t, <-published)
	})
}

// A client that reconnects behind our back acknowledges what nobody asked for.
func TestUnexpectedAcknowledgementsAreAGap(t *testing.T) {
	for _, event := range []pubsub.Event{
		{Kind: pubsub.Subscribed, Channel: "a"},
		{Kind: pubsub.Unsubscribed, Channel: "a"},
	} {
		run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			require.NoError(t, sub.Add(t.Context(), "a"))
			srv.push(event)
			requireGap(t, sub)
			assert.Equal(t, 2, srv.dialCount())
		})
	}
}

func TestStrayEventsAreIgnored(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.push(pubsub.Event{})
		srv.push(pubsub.Event{Kind: pubsub.Pong})
		srv.set(func() { srv.conns[0].reply(reply{err: driver.NewServerError("ERR whatever")}) })
		synctest.Wait()
		require.NoError(t, sub.Add(t.Context(), "b"))
		assert.Equal(t, 1, srv.dialCount())
	})
}
