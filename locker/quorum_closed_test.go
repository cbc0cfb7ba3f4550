package locker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// closed makes the connection to a node one that the application has closed.
func (f *fakeDeployment) closed() {
	f.set(func() {
		f.before = func(context.Context, driver.Command) error { return driver.NotSent(driver.ErrClosed) }
	})
}

// The application has closed its own clients of all nodes before ours.
func TestQuorumWhoseClientsTheApplicationHasClosedIsWaitedForByNobody(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		mustPair(t, c.Mutex("k"))
		lease := must(t, c.Mutex("released"))
		must(t, c.Mutex("held"))
		time.Sleep(2 * restPause)
		for _, f := range nodes {
			f.closed()
		}
		begun := time.Now()
		for _, opts := range [][]Option{nil, {Fenced()}, {Reentrant()}} {
			_, err := c.Mutex("k", opts...).Lock(within(t, time.Minute))
			require.ErrorIs(t, err, ErrClosed)
			_, err = c.Mutex("k", opts...).TryLock(t.Context())
			require.ErrorIs(t, err, ErrClosed)
			require.NotErrorIs(t, err, ErrUnavailable)
		}
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrClosed)
		assert.Zero(t, time.Since(begun))
		err := c.Close()
		assert.Less(t, time.Since(begun), 100*time.Millisecond)
		require.ErrorContains(t, err, `"held"`)
	})
}

// That of one node ends nothing.
func TestQuorumToleratesAClientOfOneNodeThatTheApplicationHasClosed(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		mustPair(t, c.Mutex("k"))
		nodes[0].closed()
		mustPair(t, c.Mutex("k"))
		nodes[1].hang()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := c.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, ErrUnavailable)
		require.NotErrorIs(t, err, ErrClosed)
		nodes[1].heal()
	})
}
