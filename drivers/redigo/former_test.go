package redigo_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

const (
	formerAddr  = "10.0.0.9:6379"
	formerReply = "*2\r\n$8\r\n10.0.0.9\r\n$4\r\n6379\r\n"
)

// former is a server that the Sentinels, which the wire plays, take for the master until
// the returned function is called. It is not told of that, and keeps its connections.
func (r *rig) former() (w *wire.Wire, depose func()) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	r.t.Cleanup(server.Close)
	w = wire.New(func(context.Context) (net.Conn, error) { return server.Dial() })
	r.t.Cleanup(func() { require.NoError(r.t, w.Close()) })
	for _, master := range []*wire.Wire{w, r.Wire} {
		master.On(wire.Match{Name: "ROLE", Times: -1}, wire.Answer(roleMaster))
	}
	known := r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(formerReply))
	return w, func() {
		known.Remove()
		r.On(wire.Match{Name: "SENTINEL", Times: -1}, wire.Answer(masterAddr))
	}
}

// client opens one of locks by Sentinels, where the former master is w.
func (r *rig) client(w *wire.Wire) *locker.Client {
	connector, err := redigo.Driver{}.OpenConnector(driver.Config{
		Mode: driver.ModeSentinel, Master: "m", Addrs: []string{"10.0.0.2:26379"},
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr == formerAddr {
				return w.Dial(ctx, network, addr)
			}
			return r.Dial(ctx, network, addr)
		},
	})
	require.NoError(r.t, err)
	c, err := locker.New(connector)
	require.NoError(r.t, err)
	r.t.Cleanup(func() { require.NoError(r.t, c.Close()) })
	return c
}

// A master that is cut off from its Sentinels, but not from its clients, keeps their
// subscriptions alive, on which nothing is heard any more. The waiters come to the new one.
func TestWaiterIsToldByTheNewMaster(t *testing.T) {
	bubble(t, func(t *testing.T, r *rig) {
		former, depose := r.former()
		holder, waiter := r.client(former), r.client(former)
		handOn := func() time.Duration {
			held, err := holder.Mutex("k").Lock(t.Context())
			require.NoError(t, err)
			got := make(chan *locker.Lease, 1)
			go func() {
				lease, err := waiter.Mutex("k").Lock(t.Context())
				assert.NoError(t, err)
				got <- lease
			}()
			time.Sleep(30 * time.Second)
			synctest.Wait()
			begun := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			lease := <-got
			took := time.Since(begun)
			require.NoError(t, lease.Unlock(t.Context()))
			return took
		}
		require.Zero(t, handOn())
		subscribed := former.Count(wire.Match{Name: "SUBSCRIBE"})
		require.Equal(t, 1, subscribed)
		depose()
		time.Sleep(time.Minute) // requests go to the new master
		require.Zero(t, handOn(), "nobody was told, and the lock was found by a look")
		require.Equal(t, subscribed, former.Count(wire.Match{Name: "SUBSCRIBE"}))
		require.Equal(t, 1, r.Count(wire.Match{Name: "SUBSCRIBE"}))
	})
}
