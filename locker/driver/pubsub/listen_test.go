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

// plain hides that a Subscription is a driver.Listener.
type plain struct{ driver.Subscription }

func TestListenGivesWhatReceiveWould(t *testing.T) {
	for name, as := range map[string]func(*pubsub.Subscription) driver.Subscription{
		"itself":  func(s *pubsub.Subscription) driver.Subscription { return s },
		"Receive": func(s *pubsub.Subscription) driver.Subscription { return plain{s} },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
				require.NoError(t, sub.Add(t.Context(), "a"))
				srv.publish("a", "before")
				var heard []string
				ctx, cancel := context.WithCancel(t.Context())
				listening := start(func() error {
					return driver.Listen(ctx, as(sub), func(m driver.Message, err error) {
						if err != nil {
							assert.ErrorIs(t, err, driver.ErrGap)
							m.Payload = "gap"
						}
						heard = append(heard, m.Payload)
					})
				})
				synctest.Wait()
				srv.publish("a", "1")
				srv.publish("a", "2")
				synctest.Wait()
				srv.cut()
				time.Sleep(pubsub.MaxPause)
				srv.publish("a", "3")
				requirePending(t, listening)
				assert.Equal(t, []string{"before", "1", "2", "gap", "3"}, heard)

				cancel()
				assert.ErrorIs(t, <-listening, context.Canceled)
				srv.publish("a", "after")
				synctest.Wait()
				assert.Len(t, heard, 5)
				requireMessage(t, sub, "a", "after")
			})
		})
	}
}

func TestListenEndsWithClose(t *testing.T) {
	run(t, func(t *testing.T, _ *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		listening := start(func() error { return sub.Listen(t.Context(), func(driver.Message, error) {}) })
		requirePending(t, listening)
		require.NoError(t, sub.Close())
		assert.ErrorIs(t, <-listening, driver.ErrClosed)
	})
}
