package locker

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A slowToConnect deployment makes connections when it is let to, and keeps them.
type slowToConnect struct {
	*fakeDeployment
	let  chan struct{}
	made chan *fakeConn
}

func (s slowToConnect) Connect(ctx context.Context) (driver.Conn, error) {
	<-s.let
	c, err := s.fakeDeployment.Connect(ctx)
	s.made <- c.(*fakeConn)
	return c, err
}

// dialTwice has two calls connect at the same time, and does something before they can. open is how many connections
// are left.
func dialTwice(t *testing.T, while func(l *link)) (got []*connection, errs []error, open int) {
	t.Helper()
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		slow := slowToConnect{f, make(chan struct{}), make(chan *fakeConn, 2)}
		l := newLink(slow)
		type dialled struct {
			c   *connection
			err error
		}
		over := make(chan dialled)
		for range 2 {
			go func() {
				c, err := l.dial(t.Context())
				over <- dialled{c, err}
			}()
		}
		synctest.Wait()
		while(l)
		close(slow.let)
		for range 2 {
			d := <-over
			got, errs = append(got, d.c), append(errs, d.err)
		}
		for range 2 {
			if c := <-slow.made; !c.closed {
				open++
			}
		}
		require.NoError(t, l.close())
	})
	return got, errs, open
}

// Two calls that connect at the same time share the connection that is there first.
func TestCallsThatConnectTogetherShareAConnection(t *testing.T) {
	got, errs, open := dialTwice(t, func(*link) {})
	assert.Equal(t, []error{nil, nil}, errs)
	require.NotNil(t, got[0])
	assert.Same(t, got[0], got[1])
	assert.Equal(t, 1, open)
}

// A connection that comes about when the client is closed already is nobody's.
func TestAConnectionAfterCloseIsClosed(t *testing.T) {
	got, errs, open := dialTwice(t, func(l *link) { _ = l.close() })
	for i, err := range errs {
		assert.Nil(t, got[i])
		assert.ErrorIs(t, err, ErrClosed)
		assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
	}
	assert.Zero(t, open)
}
