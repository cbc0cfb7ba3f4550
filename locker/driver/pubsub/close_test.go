package pubsub_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCloseAtEachMoment(t *testing.T) {
	add := func(t *testing.T, sub *pubsub.Subscription, channel string) {
		require.NoError(t, sub.Add(t.Context(), channel))
	}
	moments := map[string]func(t *testing.T, srv *server, sub *pubsub.Subscription){
		"before anything": func(*testing.T, *server, *pubsub.Subscription) {},
		"dialling": func(_ *testing.T, srv *server, _ *pubsub.Subscription) {
			srv.dialHangs = true
		},
		"pausing": func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			srv.set(func() { srv.dialErr = errRefused })
			srv.cut()
			time.Sleep(10 * time.Second)
		},
		"first acknowledgement due": func(_ *testing.T, srv *server, _ *pubsub.Subscription) {
			srv.silent = true
		},
		"acknowledgement due": func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			srv.set(func() { srv.silent = true })
		},
		"sending": func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			srv.set(func() { srv.stuck = true })
		},
		"subscribing again": func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			srv.set(func() { srv.silent = true })
			srv.cut()
			time.Sleep(time.Second)
		},
		"pong due": func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			srv.set(func() { srv.silent = true })
			time.Sleep(pubsub.PingAfter + time.Second)
		},
		"idle": func(t *testing.T, _ *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			time.Sleep(time.Hour)
		},
		"buffer full": func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			add(t, sub, "a")
			for range pubsub.MaxBuffered + 1 {
				srv.publish("a", "x")
			}
		},
	}
	for name, reach := range moments {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
				reach(t, srv, sub)
				var results []<-chan error
				if name == "dialling" || name == "pausing" || srv.silent || srv.stuck {
					results = append(results, start(func() error { return sub.Add(t.Context(), "x") }))
					requirePending(t, results[0])
				}
				if name != "buffer full" {
					received := start(func() error { _, err := sub.Receive(t.Context()); return err })
					requirePending(t, received)
					results = append(results, received)
				}

				began := time.Now()
				require.NoError(t, sub.Close())
				for _, result := range results {
					require.ErrorIs(t, <-result, driver.ErrClosed)
				}
				require.NoError(t, sub.Close(), "second Close")
				assert.Zero(t, time.Since(began))

				_, err := sub.Receive(t.Context())
				for _, err := range []error{err, sub.Add(t.Context(), "a"), sub.Remove(t.Context(), "a"), sub.Add(t.Context())} {
					require.ErrorIs(t, err, driver.ErrClosed)
					assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				}
				synctest.Wait()
				assert.Zero(t, srv.open())
			})
		})
	}
}

func TestCloseTellsWhatWasSent(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent = true })
		sent := start(func() error { return sub.Add(t.Context(), "b") })
		requirePending(t, sent)
		srv.set(func() { srv.stuck = true })
		stuck := start(func() error { return sub.Add(t.Context(), "c") })
		requirePending(t, stuck)
		queued := start(func() error { return sub.Remove(t.Context(), "a") })
		requirePending(t, queued)
		require.NoError(t, sub.Close())
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(<-sent))
		assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(<-stuck))
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(<-queued))
	})
}

// A connection that is made while Close is called is closed too.
func TestCloseWhileTheDialSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := &server{}
		dialling, left := make(chan struct{}), make(chan struct{})
		sub := pubsub.New(func(ctx context.Context) (pubsub.Conn, error) {
			close(dialling)
			<-ctx.Done()
			<-left // else the server may confirm before Add is told of Close
			return srv.dial(ctx)
		})
		added := start(func() error { return sub.Add(t.Context(), "a") })
		<-dialling
		closed := start(sub.Close)
		require.ErrorIs(t, <-added, driver.ErrClosed)
		close(left)
		require.NoError(t, <-closed)
		assert.Equal(t, 1, srv.dialCount())
		assert.Zero(t, srv.open())
	})
}

func TestCloseFromManyGoroutines(t *testing.T) {
	run(t, func(t *testing.T, _ *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		var results []<-chan error
		for range 10 {
			results = append(results, start(sub.Close))
		}
		for _, result := range results {
			require.NoError(t, <-result)
		}
	})
}
