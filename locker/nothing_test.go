package locker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// nothingConnector is a driver that gives neither a Conn nor an error.
type nothingConnector struct{ driver.Connector }

func (nothingConnector) Connect(context.Context) (driver.Conn, error) { return nil, nil }

// A driver that gives nothing is told as what it is, and does not end the process.
func TestDriverThatGivesNoConn(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(nothingConnector{f})
		require.NoError(t, err)
		defer c.Close()
		_, err = c.Mutex("k").Lock(t.Context())
		require.ErrorIs(t, err, driver.ErrUnsupported)
		assert.ErrorContains(t, err, "Connect gave neither a Conn nor an error")
	})
}

// silentConn gives neither a Subscription nor an error.
type silentConn struct{ driver.Wrapper }

func (silentConn) Subscribe(context.Context) (driver.Subscription, error) { return nil, nil }

type silentConnector struct{ driver.Connector }

func (c silentConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return silentConn{driver.Wrapper{Conn: conn}}, err
}

// The same of a Subscription, without which waiters poll.
func TestDriverThatGivesNoSubscription(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		told := make(chan error, 9)
		c, err := New(silentConnector{f}, Observe(Observer{Subscription: func(s Subscription) { told <- s.Err }}))
		require.NoError(t, err)
		defer c.Close()
		held, err := f.client(t).Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		time.AfterFunc(time.Second, func() { _ = held.Unlock(context.Background()) })
		mustPair(t, c.Mutex("k"))
		assert.ErrorContains(t, <-told, "Subscribe gave neither a Subscription nor an error")
	})
}
