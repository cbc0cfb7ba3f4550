package locker

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rounds takes four locks, one after another, and gives each back at once, so that no more
// than a majority of the nodes is asked for it.
func rounds(t *testing.T, c *Client, n int, opts ...Option) {
	t.Helper()
	for range n {
		for _, name := range []string{"a", "b", "c", "d"} {
			require.NoError(t, must(t, c.Mutex(name, opts...)).Unlock(t.Context()))
			time.Sleep(20 * time.Millisecond)
		}
	}
	synctest.Wait()
}

// A node that was hung, or slow once, is asked again although the others do, and found well.
func TestQuorumNodeThatWasInTroubleIsAskedAgain(t *testing.T) {
	for name, trouble := range map[string]func(f *fakeDeployment){
		"hung": (*fakeDeployment).hang,
		"slow": func(f *fakeDeployment) { f.answersLate(100 * time.Millisecond) },
	} {
		for _, opts := range [][]Option{nil, {Fenced()}} {
			t.Run(name, func(t *testing.T) {
				quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
					nodes.established()
					c := nodes.client(t, QuorumConfig{})
					meet(t, c)
					trouble(nodes[0])
					rounds(t, c, 20, opts...)
					nodes[0].heal()
					rounds(t, c, 20, opts...)
					nodes[0].reset()
					rounds(t, c, 10, opts...)
					assert.NotEmpty(t, nodes[0].commands())
					assert.Zero(t, c.quorum.nodes[0].rank())
					assert.False(t, c.Nodes()[0].Suspect)
					assert.NoError(t, c.Nodes()[0].Err)
				})
			})
		}
	}
}

// A node comes back empty from a failure. When the next one fails, it is in quarantine no more.
func TestQuorumQuarantineBeginsBesideShortLeases(t *testing.T) {
	withoutRaceDetector(t)
	for _, opts := range [][]Option{nil, {Fenced()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			const longest = 4 * time.Second
			c := nodes.client(t, QuorumConfig{LongestTTL: longest})
			meet(t, c)
			nodes[0].hang()
			rounds(t, c, 20, opts...)
			nodes[0].FlushAll()
			nodes[0].heal()
			rounds(t, c, int(2*longest/(80*time.Millisecond)), opts...)
			nodes[1].down()
			lease, err := c.Mutex("a", opts...).TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

// A node that is passed over is asked about once a second, and nobody is where nobody wants a lock.
func TestQuorumPassedOverNodeIsAskedSeldom(t *testing.T) {
	withoutRaceDetector(t)
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		passed := nodes[c.quorum.order("k")[2]]
		marks := passed.marks()
		passed.reset()
		for range 1000 {
			require.NoError(t, must(t, c.Mutex("k")).Unlock(t.Context()))
			time.Sleep(10 * time.Millisecond)
		}
		assert.InDelta(t, 9, marks.Load(), 1)
		assert.Len(t, passed.commands(), int(marks.Load()), "nothing else")
		nodes.reset()
		time.Sleep(time.Hour)
		for _, f := range nodes {
			assert.Empty(t, f.commands())
		}
	})
}
