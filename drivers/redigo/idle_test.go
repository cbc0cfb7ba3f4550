package redigo_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

func TestIdleConnectionKilled(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		do(t, c, "PING")
		r.KillAll()
		time.Sleep(time.Second)
		do(t, c, "INCR", "n")
		require.Equal(t, "2", fmt.Sprint(do(t, c, "INCR", "n")))
	})
}

// Of all the connections that a restart of the server broke, one fails a call, even
// if all were in use a moment ago.
func TestServerRestarted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		r.occupy(c, 8)
		time.Sleep(time.Millisecond)
		r.KillAll()
		_, err := c.Do(t.Context(), command("PING"))
		require.Error(t, err)
		require.Equal(t, driver.OutcomeUnknown, driver.OutcomeOf(err))
		for range 8 {
			do(t, c, "PING")
		}
	})
}

// With every idle connection a black hole, a call has to wait for one check only.
func TestIdleConnectionsMuted(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		r.occupy(c, 8)
		r.Mute()
		time.Sleep(time.Minute)

		start := time.Now()
		do(t, c, "PING")
		require.Equal(t, time.Second, time.Since(start))
	})
}

// A ctx that ends while an idle connection is checked ends the call, and costs
// only that connection.
func TestCheckEndsWithCtx(t *testing.T) {
	for range 20 { // the network's deadline may come first, or ctx's
		bubble(t, checkEndsWithCtx)
	}
}

func checkEndsWithCtx(t *testing.T, r *rig) {
	c := r.open(driver.Config{})
	r.occupy(c, 4)
	r.Mute()
	time.Sleep(time.Minute)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := c.Do(ctx, command("SET", "k", "v"))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	require.Equal(t, 10*time.Millisecond, time.Since(start))
	synctest.Wait()
	require.Equal(t, 3, r.Open())
}

// Requests about short leases have less time than a check. One of them finds out, and the
// next one has a new connection.
func TestCheckThatEndsWithCtxIsNotMadeAgain(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		r.occupy(c, 8)
		r.Mute()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		_, err := c.Do(ctx, command("PING"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		start := time.Now()
		do(t, c, "PING")
		require.Zero(t, time.Since(start))
	})
}

// The network has forgotten all connections, as a load balancer does that is replaced. A renewal
// waits for its reply on one of them for a part of what is left of the lease; the next one
// must not try its luck with another.
func TestLeaseOutlivesConnectionsThatAreForgotten(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second} {
		for _, idle := range []time.Duration{0, 10 * time.Second} {
			t.Run(fmt.Sprint(ttl, " after ", idle), func(t *testing.T) {
				bubble(t, func(t *testing.T, r *rig) {
					c := r.open(driver.Config{PoolSize: 16})
					locks, err := locker.New(driver.NewConnector(redigo.Driver{}, func(context.Context) (driver.Conn, error) { return c, nil }))
					require.NoError(t, err)
					defer locks.Close()
					lease, err := locks.Mutex("k", locker.TTL(ttl)).Lock(t.Context())
					require.NoError(t, err)
					time.Sleep(idle)
					r.occupy(c, 16)
					r.Mute()
					select {
					case <-lease.Context().Done():
						t.Error(context.Cause(lease.Context()))
					case <-time.After(time.Minute):
					}
					assert.NoError(t, lease.Unlock(t.Context()))
				})
			})
		}
	}
}

// A caller that gives up before anything could have come says nothing of the connections.
func TestImpatientCallerLeavesIdleConnections(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		r.occupy(c, 8)
		time.Sleep(time.Millisecond)
		r.On(wire.Match{Name: "SET"}, wire.BlackHole)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		_, err := c.Do(ctx, command("SET", "k", "v"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range 7 {
			do(t, c, "PING")
		}
		require.Equal(t, 7, r.Open())
		require.Equal(t, 8, r.Dials())
	})
}

// One connection is silent, and others are not: those stay.
func TestConnectionsThatAnsweredMeanwhileStay(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		r.occupy(c, 2)
		r.On(wire.Match{Name: "SET"}, wire.BlackHole)
		given := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() {
			_, err := c.Do(ctx, command("SET", "k", "v"))
			given <- err
		}()
		time.Sleep(500 * time.Millisecond)
		do(t, c, "PING")
		require.ErrorIs(t, <-given, context.DeadlineExceeded)
		do(t, c, "PING")
		require.Equal(t, 2, r.Dials())
	})
}

// A batch that brought one reply after the other until its caller gave up was not silent.
func TestSlowBatchLeavesIdleConnections(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		c := r.open(driver.Config{})
		r.occupy(c, 2)
		r.On(wire.Match{Name: "ECHO", Times: -1}, wire.Delay(200*time.Millisecond))
		time.Sleep(time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 900*time.Millisecond)
		defer cancel()
		cmds := make([]driver.Command, 10)
		for i := range cmds {
			cmds[i] = command("ECHO", "x")
		}
		results := c.(driver.Batcher).DoBatch(ctx, cmds)
		require.NoError(t, results[0].Err)
		require.ErrorIs(t, results[9].Err, context.DeadlineExceeded)
		do(t, c, "PING")
		require.Equal(t, 2, r.Dials())
	})
}
