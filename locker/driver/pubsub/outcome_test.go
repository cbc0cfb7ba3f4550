package pubsub_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golocker/golocker/locker/driver"
	"github.com/golocker/golocker/locker/driver/pubsub"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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

// What befell the connection must not pass for the outcome of the request.
func TestOutcomeIsTheRequestsOwn(t *testing.T) {
	for name, failure := range map[string]error{
		"reply":    driver.NewServerError("LOADING Redis is loading the dataset in memory"),
		"not sent": driver.NotSent(errRefused),
	} {
		t.Run("the first connection fails with "+name, func(t *testing.T) {
			run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
				srv.sendErr = failure
				err := sub.Add(t.Context(), "a")
				require.ErrorContains(t, err, failure.Error())
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			})
		})
		t.Run("a later dial fails with "+name, func(t *testing.T) {
			run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
				require.NoError(t, sub.Add(t.Context(), "a"))
				srv.set(func() { srv.silent = true })
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				added := start(func() error { return sub.Add(ctx, "b") })
				requirePending(t, added)
				srv.set(func() { srv.dialErr = failure })
				srv.cut()
				err := <-added
				require.ErrorContains(t, err, failure.Error())
				assert.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
			})
		})
		t.Run("the first dial fails with "+name, func(t *testing.T) {
			run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
				srv.dialErr = failure
				err := sub.Add(t.Context(), "a")
				require.True(t, errors.Is(err, failure))
				assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			})
		})
	}
}

func TestNothingIsAskedForUnderAContextThatHasEnded(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, do := range []func(context.Context, ...string) error{sub.Add, sub.Remove} {
			err := do(ctx, "a")
			assert.ErrorIs(t, err, context.Canceled)
			assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
		}
		synctest.Wait()
		assert.Zero(t, srv.dialCount())
	})
}

// answeredAtTheEnd is a context that ends when all else has come to rest, at the moment that its end is waited for.
type answeredAtTheEnd struct {
	context.Context
	end context.CancelFunc
}

func (c answeredAtTheEnd) Done() <-chan struct{} {
	synctest.Wait()
	c.end()
	return c.Context.Done()
}

func TestAcknowledgementThatComesTogetherWithTheEndCounts(t *testing.T) {
	for range 20 { // which of the two is seen first is by chance
		run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
			ctx, end := context.WithCancel(t.Context())
			assert.NoError(t, sub.Add(answeredAtTheEnd{ctx, end}, "a"))
			assert.Equal(t, 1, srv.subscribers("a"))
		})
	}
}

// A Remove whose connection is lost has nothing to wait for any more.
func TestRemoveReturnsWhenItsConnectionIsLost(t *testing.T) {
	run(t, func(t *testing.T, srv *server, sub *pubsub.Subscription) {
		require.NoError(t, sub.Add(t.Context(), "a"))
		srv.set(func() { srv.silent, srv.dialErr = true, errRefused })
		removed := start(func() error { return sub.Remove(t.Context(), "a") })
		synctest.Wait()
		srv.cut()
		synctest.Wait()
		select {
		case err := <-removed:
			assert.NoError(t, err)
		default:
			assert.Fail(t, "it waits")
			srv.set(func() { srv.silent, srv.dialErr = false, nil })
			<-removed
		}
	})
}
