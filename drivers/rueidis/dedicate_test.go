package rueidis_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/locker/driver"
)

// exhausted is a client whose only connection of the blocking pool the application uses,
// for a BLPOP or a subscription of its own. It counts how often others ask for one.
type exhausted struct {
	rue.Client
	free            func()
	asked, answered atomic.Int32
}

func (e *exhausted) Dedicate() (rue.DedicatedClient, func()) {
	e.asked.Add(1)
	defer e.answered.Add(1)
	return e.Client.Dedicate()
}

func exhaust(t *testing.T, w *wire.Wire) *exhausted {
	t.Helper()
	c := client(t, w, func(o *rue.ClientOption) { o.BlockingPoolSize = 1 })
	theirs, free := c.Dedicate()
	require.NoError(t, theirs.Do(t.Context(), theirs.B().Ping().Build()).Error())
	return &exhausted{Client: c, free: free}
}

// requireFree fails the test unless the application can have its connection again at once.
func (e *exhausted) requireFree(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Equal(t, e.asked.Load(), e.answered.Load(), "somebody waits for a connection still")
	had := false
	go func() {
		_, free := e.Client.Dedicate()
		free()
		had = true
	}()
	synctest.Wait()
	require.True(t, had, "the connection was not given back")
}

// A connection that breaks while it is made leaves its place to the next one.
func TestSubscribingAgainAfterAConnectionThatBroke(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		conn := connect(t, rueidis.Wrap(client(t, w, func(o *rue.ClientOption) { o.BlockingPoolSize = 1 })))
		w.On(wire.Match{Name: "SUBSCRIBE"}, wire.CutReply)
		sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		require.Error(t, sub.Add(within(t, 10*time.Second), "ch"))
		require.NoError(t, sub.Add(within(t, 10*time.Second), "ch"))
		require.NoError(t, sub.Close())
	})
}

// Nothing ends rueidis' waiting for a connection. However often a subscription that cannot
// be had is tried again, one goroutine waits, and keeps nothing when that comes too late.
func TestSubscribingToAnExhaustedClientPilesNothingUp(t *testing.T) {
	for name, end := range map[string]func(driver.Conn, driver.Subscription) error{
		"Subscription": func(_ driver.Conn, sub driver.Subscription) error { return sub.Close() },
		"Conn":         func(conn driver.Conn, _ driver.Subscription) error { return conn.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *wire.Wire) {
				e := exhaust(t, w)
				conn := connect(t, rueidis.Wrap(e))
				sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
				require.NoError(t, err)
				for range 6 {
					err := sub.Add(within(t, 5*time.Minute), "ch")
					require.ErrorContains(t, err, "BlockingPoolSize")
					assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
				}
				assert.EqualValues(t, 1, e.asked.Load())
				require.NoError(t, end(conn, sub))
				dials := w.Dials()
				e.free()
				e.requireFree(t)
				assert.LessOrEqual(t, w.Dials(), dials+1, "each attempt had a connection made")
			})
		})
	}
}

// What the application gives back is had by who waits by then.
func TestSubscribeTakesWhatAnEarlierAttemptAskedFor(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		e := exhaust(t, w)
		conn := connect(t, rueidis.Wrap(e))
		sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		require.Error(t, sub.Add(within(t, time.Minute), "ch"))
		start := time.Now()
		time.AfterFunc(10*time.Second, e.free)
		require.NoError(t, sub.Add(within(t, time.Minute), "ch"))
		assert.Less(t, time.Since(start), 11*time.Second)
		assert.EqualValues(t, 1, e.asked.Load())
		require.EqualValues(t, 1, do(t, conn, "PUBLISH", "ch", "m"))
		m, err := sub.Receive(t.Context())
		require.NoError(t, err)
		assert.Equal(t, driver.Message{Channel: "ch", Payload: "m"}, m)
		require.NoError(t, sub.Close())
		time.Sleep(time.Second)
		e.requireFree(t)
	})
}

// Two subscriptions want a connection each, and the first gives up.
func TestSubscriptionsWaitForEachOthersConnections(t *testing.T) {
	inBubble(t, func(t *testing.T, w *wire.Wire) {
		c := client(t, w)
		conn := connect(t, rueidis.Wrap(c))
		do(t, conn, "PING")
		w.HangDials()
		added := make(chan error, 3)
		for range 3 {
			sub, err := conn.(driver.Subscriber).Subscribe(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, sub.Close()) })
			go func() { added <- sub.Add(t.Context(), "ch") }()
		}
		impatient, err := conn.(driver.Subscriber).Subscribe(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, impatient.Add(within(t, time.Second), "ch"), context.DeadlineExceeded)
		require.NoError(t, impatient.Close())
		w.ResumeDials()
		for range 3 {
			require.NoError(t, <-added)
		}
		require.EqualValues(t, 3, do(t, conn, "PUBLISH", "ch", "m"))
	})
}
