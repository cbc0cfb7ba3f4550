package pubsub_test

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver/pubsub"
	"github.com/stretchr/testify/require"
)

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
