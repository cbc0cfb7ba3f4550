package locker

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// A miscounting deployment is of a driver that, while lost is true, sends no batch and returns
// so many results more than there are commands, all empty.
type miscounting struct {
	*fakeDeployment
	lost bool
	more int
}

func (m *miscounting) lose(lost bool) { m.set(func() { m.lost = lost }) }

func (m *miscounting) Connect(ctx context.Context) (driver.Conn, error) {
	c, err := m.fakeDeployment.Connect(ctx)
	return miscountingConn{c, m}, err
}

// It is no [driver.Describer], so that calls about several locks are not made as one.
type miscountingConn struct {
	driver.Conn
	m *miscounting
}

func (c miscountingConn) DoBatch(ctx context.Context, cmds []driver.Command) []driver.Result {
	lost := false
	c.m.set(func() { lost = c.m.lost })
	if lost {
		return make([]driver.Result, max(len(cmds)+c.m.more, 0))
	}
	return driver.DoBatch(ctx, driver.Wrapper{Conn: c.Conn}, cmds)
}

func miscounted(t *testing.T, test func(t *testing.T, m *miscounting, c *Client)) {
	for _, more := range []int{-1000, -1, 0, 1} {
		t.Run(fmt.Sprint(more), func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				m := &miscounting{fakeDeployment: f, more: more}
				c, err := New(m)
				require.NoError(t, err)
				defer c.Close()
				test(t, m, c)
			})
		})
	}
}

func TestLeasesOutliveABatchWithTheWrongNumberOfResults(t *testing.T) {
	withoutRaceDetector(t)
	miscounted(t, func(t *testing.T, m *miscounting, c *Client) {
		leases := holdMany(t, c, 200, TTL(10*time.Second))
		m.lose(true)
		time.Sleep(4 * time.Second) // one renewal of each
		m.lose(false)
		time.Sleep(20 * time.Second)
		assert.Empty(t, slices.DeleteFunc(leases, (*Lease).Valid), "the fault lasted 4 s")
	})
}

func TestLocksAreReleasedAfterABatchWithTheWrongNumberOfResults(t *testing.T) {
	miscounted(t, func(t *testing.T, m *miscounting, c *Client) {
		m.lose(true)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, l := range holdMany(t, c, 20, TTL(time.Hour)) {
			assert.ErrorIs(t, l.Unlock(ended), ErrUnknown) // in the background
		}
		time.Sleep(time.Second)
		m.lose(false)
		time.Sleep(10 * time.Second)
		assert.Empty(t, m.Keys())
	})
}

func TestCloseTellsOfABatchWithTheWrongNumberOfResults(t *testing.T) {
	miscounted(t, func(t *testing.T, m *miscounting, c *Client) {
		holdMany(t, c, 2, TTL(time.Hour))
		m.lose(true)
		err := c.Close()
		assert.ErrorIs(t, err, ErrUnknown)
		assert.ErrorContains(t, err, "lock0")
		assert.ErrorContains(t, err, "lock1")
	})
}

func TestListTellsOfABatchWithTheWrongNumberOfResults(t *testing.T) {
	miscounted(t, func(t *testing.T, m *miscounting, c *Client) {
		holdMany(t, c, 20, TTL(time.Hour))
		m.lose(true)
		var found []string
		var failed error
		for lock, err := range c.List(t.Context(), "") {
			if failed = err; err == nil {
				found = append(found, lock.Name)
			}
		}
		assert.Empty(t, found)
		assert.Error(t, failed)
	})
}
