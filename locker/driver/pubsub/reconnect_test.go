package pubsub_test

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// Once a gap has been reported there is no need for a connection by it.
func TestNoConnectionWithoutChannelsAfterAGap(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.cut()
		requireGap(t, sub)
		require.NoError(t, sub.Remove(t.Context(), "a"))
		dials := srv.dialCount()
		srv.cut()
		time.Sleep(time.Minute)
		assert.Equal(t, dials, srv.dialCount())
		requireNothing(t, sub)
	})
}

// lingering is a connection whose Receive takes a while to return once it is closed.
type lingering struct {
	pubsub.Conn
	reading *atomic.Int32
}

func (l lingering) Receive(ctx context.Context) (pubsub.Event, error) {
	l.reading.Add(1)
	defer l.reading.Add(-1)
	event, err := l.Conn.Receive(ctx)
	if err != nil {
		time.Sleep(5 * time.Second)
	}
	return event, err
}

func TestNoConnectionWhileTheOneBeforeIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, reading := &server{}, new(atomic.Int32)
		sub := pubsub.New(func(ctx context.Context) (pubsub.Conn, error) {
			assert.Zero(t, reading.Load())
			c, err := srv.dial(ctx)
			return lingering{c, reading}, err
		})
		defer sub.Close()
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.sendErr = io.ErrClosedPipe }) // the writer sees it first
		added := start(func() error { return sub.Add(t.Context(), "b") })
		synctest.Wait()
		srv.set(func() { srv.sendErr = nil })
		require.NoError(t, <-added)
		requireGap(t, sub)
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

// Most servers are back soon, and those that are not shall not be dialled often.
func TestPausesGrowFromFailureToFailure(t *testing.T) {
	var longest [10]time.Duration
	for range 30 {
		run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			require.NoError(t, sub.Add(t.Context(), "a"))
			time.Sleep(pubsub.MaxPause)
			srv.set(func() { srv.dialErr, srv.dials = errRefused, nil })
			failed := time.Now()
			srv.cut()
			time.Sleep(time.Minute)
			require.Greater(t, srv.dialCount(), len(longest))
			for n := range longest {
				srv.set(func() {
					longest[n] = max(longest[n], srv.dials[n].Sub(failed))
					failed = srv.dials[n]
				})
			}
		})
	}
	for n, pause := range longest {
		limit := min(pubsub.MinPause<<n, pubsub.MaxPause)
		assert.LessOrEqual(t, pause, limit, "after %d failures", n+1)
		assert.Greater(t, pause, limit/2, "after %d failures, at random", n+1)
	}
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

// A gap is owed even if no channel is left by the time there is a connection.
func TestGapOutlivesItsChannels(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.dialErr = errRefused })
		srv.cut()
		synctest.Wait()
		require.NoError(t, sub.Remove(t.Context(), "a"))
		time.Sleep(10 * time.Second)
		requireNothing(t, sub)
		srv.set(func() { srv.dialErr = nil })
		requireGap(t, sub)
		requireNothing(t, sub)
	})
}

func TestAcknowledgementOfTheWrongChannel(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent = true })
		added := start(func() error { return sub.Add(t.Context(), "b") })
		requirePending(t, added)
		srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: "other"})
		requirePending(t, added)
		srv.set(func() { srv.silent = false })
		srv.cut()
		require.NoError(t, <-added)
		requireGap(t, sub)
	})
}
