package locker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// What one hand-off costs the server, in its own CPU time: to enter the queue, and to
// release and grant. Waiters are 31, each on a client of its own that listens.
func BenchmarkHandOff(b *testing.B) {
	for _, kind := range []struct {
		name string
		opts []Option
	}{{"mutex", nil}, {"fenced", []Option{Fenced()}}, {"writer", []Option{ForWriting()}}} {
		b.Run(kind.name, func(b *testing.B) { benchHandOff(b, kind.opts) })
	}
}

const benchWaiters = 31

func benchHandOff(b *testing.B, opts []Option) {
	f := &fakeDeployment{dial: startRedis(b)}
	conn, err := f.Connect(b.Context())
	require.NoError(b, err)
	defer conn.Close()
	c, err := New(f)
	require.NoError(b, err)
	defer c.Close()
	m := c.Mutex("orders:42", opts...)
	channels := make([]string, benchWaiters)
	for i := range channels {
		channels[i] = sidePrefix + "c:" + newID()
		sub, err := conn.(driver.Subscriber).Subscribe(b.Context())
		require.NoError(b, err)
		defer sub.Close()
		require.NoError(b, sub.Add(b.Context(), channels[i]))
		go func() {
			for {
				if _, err := sub.Receive(context.Background()); err != nil {
					return
				}
			}
		}()
	}
	ask := func(p place) string {
		r := &request{name: m.name, keys: &m.keys, mode: m.mode, id: newID(), owner: newID(), tail: m.tail, ttl: m.ttl, px: m.px, fenced: m.cfg.fenced}
		if !m.mode.owned() {
			r.owner = ""
		}
		if _, _, err := c.store.acquire(b.Context(), r, p); p.reservation == "" {
			require.NoError(b, err)
		} else {
			require.ErrorIs(b, err, ErrLocked)
		}
		return r.id
	}
	release := func(id string) {
		v, err := c.store.link.run(b.Context(), c.store.releaseCall(m, id, "", 0))
		require.NoError(b, err)
		require.EqualValues(b, 1, v)
	}
	release(ask(place{})) // describes the deployment, loads the scripts
	spent := func() float64 { return scriptTime(b, commandStats(b, conn)) }
	var enter, handOff float64
	for b.Loop() {
		ids := []string{ask(place{})}
		before := spent()
		for i := range benchWaiters {
			ids = append(ids, ask(place{reservation: newID(), channel: channels[i], life: 4 * time.Second}))
		}
		between := spent()
		for _, id := range ids[:benchWaiters] {
			release(id)
		}
		after := spent()
		release(ids[benchWaiters])
		enter, handOff = enter+between-before, handOff+after-between
	}
	n := float64(b.N * benchWaiters)
	b.ReportMetric(enter/n, "enter-µs")
	b.ReportMetric(handOff/n, "hand-off-µs")
}
