package pubsub

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestGroupClosesItsSubscriptions(t *testing.T) {
	var g Group
	dial := func(context.Context) (Conn, error) { return nil, driver.ErrClosed }
	first, err := g.Subscribe(t.Context(), dial)
	require.NoError(t, err)
	second, err := g.Subscribe(t.Context(), dial)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	assert.Len(t, g.open, 1, "a closed one is forgotten")
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	_, err = second.Receive(t.Context())
	assert.ErrorIs(t, err, driver.ErrClosed)
	_, err = g.Subscribe(t.Context(), dial)
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = new(Group).Subscribe(ctx, dial)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

type idleConn struct{ closed chan struct{} }

func (c idleConn) Send(context.Context, ...string) error { return nil }

func (c idleConn) Receive(context.Context) (Event, error) {
	<-c.closed
	return Event{}, io.EOF
}

func (c idleConn) Close() error {
	time.Sleep(time.Second)
	close(c.closed)
	return nil
}

func TestGroupIsClosedWhenAllConnectionsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g Group
		var conns []idleConn
		for range 3 {
			s, err := g.Subscribe(t.Context(), func(context.Context) (Conn, error) {
				c := idleConn{make(chan struct{})}
				conns = append(conns, c)
				return c, nil
			})
			require.NoError(t, err)
			go func() { _ = s.Add(t.Context(), "a") }()
			synctest.Wait()
		}
		require.Len(t, conns, 3)
		require.NoError(t, g.Close())
		for _, c := range conns {
			select {
			case <-c.closed:
			default:
				assert.Fail(t, "left open")
			}
		}
	})
}

func ExampleGroup() {
	// A field of the driver's Conn; Conn.Subscribe calls its Subscribe, and
	// Conn.Close its Close.
	var g Group
	defer g.Close()
}
