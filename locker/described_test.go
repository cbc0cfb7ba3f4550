package locker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// slowToTell is a Cluster that tells what it is only when it is asked again.
type slowToTell struct{ sharded }

func (s slowToTell) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.sharded.Connect(ctx)
	return &slowToTellConn{c.(*shardConn), 0}, err
}

type slowToTellConn struct {
	*shardConn
	asked int
}

func (c *slowToTellConn) Describe(ctx context.Context) (driver.Topology, error) {
	if c.asked++; c.asked == 1 {
		return driver.Topology{}, driver.NotSent(context.DeadlineExceeded)
	}
	return c.shardConn.Describe(ctx)
}

// A Cluster that is recognised when somebody waits for the first time, and not when the
// client connects, is used as one from then on.
func TestClusterThatIsRecognisedLater(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(slowToTell{sharded{f}})
		require.NoError(t, err)
		defer c.Close()
		for i := range 16 { // in several parts of it
			key := fmt.Sprint("k", i)
			f.Set(key, "foreign")
			f.SetTTL(key, time.Second)
			l, err := c.Mutex(key).Lock(t.Context()) // waits, and so subscribes
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		}
		assert.True(t, c.deployment.sharded())
	})
}

// A call whose context has ended makes no connection.
func TestEndedCallDoesNotConnect(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		for range 16 { // a select would be a toss-up
			c := f.client(t)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := c.Inspect(ended, "k")
			require.ErrorIs(t, err, context.Canceled)
			require.Nil(t, c.store.link.open.Load())
		}
	})
}
