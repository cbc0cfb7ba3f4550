package locker

import (
	"context"
	"fmt"
	"sync/atomic"
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

// shyCluster tells its mode, or nothing, with an error when it is asked first.
type shyCluster struct {
	sharded
	first driver.Mode
}

func (s shyCluster) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := s.sharded.Connect(ctx)
	return &shyConn{c.(*shardConn), s.first, new(atomic.Int32)}, err
}

type shyConn struct {
	*shardConn
	first driver.Mode
	asked *atomic.Int32
}

func (c *shyConn) Describe(ctx context.Context) (driver.Topology, error) {
	if c.asked.Add(1) == 1 {
		return driver.Topology{Mode: c.first}, driver.NewServerError("LOADING Redis is loading the dataset in memory")
	}
	return c.shardConn.Describe(ctx)
}

// A Cluster that is busy when the client connects is used as one, though nobody ever waits: a
// shard that hangs later costs no lease on another one.
func TestClusterThatIsBusyAtFirst(t *testing.T) {
	withoutRaceDetector(t)
	for _, first := range []driver.Mode{driver.ModeCluster, driver.ModeSingle} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c, err := New(shyCluster{sharded{f}, first})
			require.NoError(t, err)
			defer c.Close()
			must(t, c.Mutex("first"))
			assert.Equal(t, first == driver.ModeCluster, c.deployment.sharded(), "the driver knows")
			time.Sleep(2 * describePause)
			var good []*Lease
			for i := range 200 {
				good = append(good, must(t, c.Mutex(fmt.Sprint("{good}", i), TTL(10*time.Second))))
				must(t, c.Mutex(fmt.Sprint("{dead}", i), TTL(10*time.Second)))
				time.Sleep(3 * time.Millisecond)
			}
			deadShard(f)
			time.Sleep(time.Minute)
			assert.Equal(t, len(good), valid(good))
		})
	}
}

// A deployment that does not tell what it is is asked now and then, beside the calls, and
// not while nobody uses it.
func TestDeploymentThatNeverTellsIsAskedSeldom(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := &mute{fakeDeployment: f}
		c, err := New(m)
		require.NoError(t, err)
		require.NoError(t, must(t, c.Mutex("first")).Unlock(t.Context()))
		for range 1000 {
			begun := time.Now()
			require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
			assert.Zero(t, time.Since(begun))
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 10, m.asked.Load(), 2)
		asked := m.asked.Load()
		time.Sleep(time.Hour)
		assert.Equal(t, asked, m.asked.Load())
		require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
		require.NoError(t, c.Close(), "which waits for it")
	})
}

// A mute deployment takes all the time that it is given to tell what it is.
type mute struct {
	*fakeDeployment
	asked atomic.Int32
}

func (m *mute) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := m.fakeDeployment.Connect(ctx)
	return &muteConn{c.(*fakeConn), m}, err
}

type muteConn struct {
	*fakeConn
	mute *mute
}

func (c *muteConn) Describe(ctx context.Context) (driver.Topology, error) {
	c.mute.asked.Add(1)
	<-ctx.Done()
	return driver.Topology{}, driver.NotSent(ctx.Err())
}

// A Cluster that is recognised when somebody waits for the first time, and not when the
// client connects, is used as one from then on.
func TestClusterThatIsRecognisedLater(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c, err := New(slowToTell{sharded{f}})
		require.NoError(t, err)
		defer c.Close()
		begun := time.Now()
		for i := range 16 { // in several parts of it
			key := fmt.Sprint("k", i)
			f.Set(key, "foreign")
			f.SetTTL(key, describePause/32)
			l, err := c.Mutex(key).Lock(t.Context()) // waits, and so subscribes
			require.NoError(t, err)
			require.NoError(t, l.Unlock(t.Context()))
		}
		require.Less(t, time.Since(begun), describePause, "else the calls have it asked, too")
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
