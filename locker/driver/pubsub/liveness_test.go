package pubsub_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// A PING is due so long after the last message, not after the last look at the clock.
func TestPingIsDueAfterTheLastMessage(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		time.Sleep(pubsub.PingAfter / 4)
		srv.publish("a", "1")
		synctest.Wait()
		time.Sleep(pubsub.PingAfter)
		synctest.Wait()
		assert.Equal(t, 1, srv.count("PING"))
	})
}

// A connection that has lived for long is watched as one that is new.
func TestBlackHoleAfterALongLife(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		time.Sleep(12*pubsub.PingAfter - time.Nanosecond) // the worst moment
		began := time.Now()
		srv.set(func() { srv.silent = true })
		time.Sleep(pubsub.DeadAfter - pubsub.PingAfter)
		srv.set(func() { srv.silent = false })
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := sub.Receive(ctx)
		assert.ErrorIs(t, err, driver.ErrGap)
		assert.LessOrEqual(t, time.Since(began), 15*time.Second)
	})
}

// A Pong that nobody waits for answers no other request.
func TestPongThatIsNotDue(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent = true })
		added := start(func() error { return sub.Add(t.Context(), "b") })
		synctest.Wait()
		srv.push(pubsub.Event{Kind: pubsub.Pong})
		srv.push(pubsub.Event{Kind: pubsub.Subscribed, Channel: "b"})
		require.NoError(t, <-added)
		assert.Equal(t, 1, srv.dialCount())
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

// A client that does not tell PONG from anything else.
func TestUnnoticedPongs(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.mute = true
		require.NoError(t, sub.Add(t.Context(), "a"))
		time.Sleep(time.Minute)
		require.NoError(t, sub.Add(t.Context(), "b"))
		require.NoError(t, sub.Remove(t.Context(), "a"))
		assert.Equal(t, 1, srv.dialCount())
		assert.InDelta(t, 12, srv.count("PING"), 1)
	})
}

func TestRefusalAfterAPing(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		srv.denied = map[string]bool{"secret": true}
		require.NoError(t, sub.Add(t.Context(), "a"))
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := sub.Add(ctx, "secret")
		assert.Equal(t, driver.OutcomeReplied, driver.OutcomeOf(err), "%v", err)
	})
}
