package locker

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

// marks counts how often a node is asked for its marker by a client that only renews.
func (f *fakeDeployment) marks() *atomic.Int32 {
	var n atomic.Int32
	f.set(func() {
		f.before = func(_ context.Context, cmd driver.Command) error {
			if markScript.runs(cmd) {
				n.Add(1)
			}
			return nil
		}
	})
	return &n
}

// The nodes restart empty one after another, far apart, and all that is asked meanwhile is
// the renewal of one lease. It is lost, since nothing is given back; other locks are not.
func TestQuorumQuarantineBeginsWithARenewal(t *testing.T) {
	for _, opts := range [][]Option{nil, {Fenced()}, {ForReading()}} {
		quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
			nodes.established()
			c := nodes.client(t, QuorumConfig{})
			meet(t, c)
			leader := must(t, c.Mutex("leader", opts...))
			for _, f := range nodes[:2] {
				time.Sleep(2 * DefaultLongestTTL)
				assert.True(t, leader.Valid())
				f.FlushAll()
			}
			other := nodes.client(t, QuorumConfig{})
			_, err := other.Mutex("other").TryLock(t.Context())
			assert.NoError(t, err, "node 0 has been there for longer than any lease")
			<-leader.Context().Done()
			assert.ErrorIs(t, leader.Err(), ErrLost)
		})
	}
}

// It begins when the lease is renewed next, and is as long as any other.
func TestQuorumQuarantineOfARenewalIsWhole(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		must(t, c.Mutex("leader"))
		time.Sleep(time.Minute)
		nodes[0].FlushAll()
		time.Sleep(DefaultTTL / 2)
		assert.ErrorContains(t, c.Nodes()[0].Err, "takes no part", "after the next renewal")
		other := nodes.client(t, QuorumConfig{})
		nodes[1].down()
		_, err := other.Mutex("k").TryLock(t.Context())
		assert.ErrorIs(t, err, ErrUnavailable)
		time.Sleep(DefaultLongestTTL)
		lease, err := other.Mutex("k").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A node that never had the lease is not asked for its marker at each renewal, and one that
// has all leases never.
func TestQuorumAsksForAMarkerNowAndThen(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		c := nodes.client(t, QuorumConfig{})
		meet(t, c)
		nodes[0].down()
		for _, name := range []string{"a", "b", "c"} {
			must(t, c.Mutex(name, TTL(3*time.Second)))
		}
		time.Sleep(time.Second / 2)
		synctest.Wait()
		lacking, having := nodes[0].marks(), nodes[1].marks()
		time.Sleep(DefaultLongestTTL)
		assert.InDelta(t, 14, lacking.Load(), 3)
		assert.Zero(t, having.Load())
		assert.NoError(t, c.Nodes()[0].Err)
	})
}

// All that is asked of the nodes, for longer than they are remembered, is to renew one lease.
func TestQuorumMarkersOutliveALongLease(t *testing.T) {
	withoutRaceDetector(t)
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		nodes.established()
		cfg := QuorumConfig{LongestTTL: 6 * time.Hour}
		c := nodes.client(t, cfg, TTL(6*time.Hour))
		meet(t, c)
		lease := must(t, c.Mutex("leader"))
		everywhere()
		asked := nodes[0].marks()
		time.Sleep(markerLife + 24*time.Hour)
		assert.InDelta(t, 8, asked.Load(), 1)
		require.True(t, lease.Valid())
		_, err := nodes.client(t, cfg).Mutex("other").TryLock(t.Context())
		assert.NoError(t, err)
	})
}

// The marker behind a SET tells that the node had kept its data when the SET was sent, not when the
// answer is read: it may have lost them in between, and be known by another marker since.
func TestQuorumMarkerIsThatOfTheSending(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		q.nodes[0].learn("1")
		q.nodes[1].learn("1")
		var given taken
		read := q.reader(&request{name: "k"}, &given)
		q.nodes[0].learn("2")
		answers := func(marker string) []driver.Result { return []driver.Result{{Value: "OK"}, {Value: marker}} }
		_, err := read(0, answers("2"))
		assert.ErrorAs(t, err, new(errNew))
		assert.True(t, given.certain.has(0))
		assert.Equal(t, "2", q.nodes[0].marker.Load().value, "it is learned already")
		_, err = read(1, answers("1"))
		assert.NoError(t, err)
		_, err = read(2, answers("1"))
		assert.ErrorAs(t, err, new(errNew))
	})
}

// However long leases may be, a node is remembered for several times as long.
func TestQuorumMarkerOutlivesTheLongestTTL(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		const longest = markerLife / 2
		must(t, nodes.client(t, QuorumConfig{LongestTTL: longest, Bootstrap: true}).Mutex("k"))
		assert.InDelta(t, 4*longest, nodes[0].pttl(t, markerKey), float64(time.Second))
	})
}

// SET has given the lock also where it is not told what the node's marker is: that is why the node takes no part, and not
// that it is new.
func TestQuorumMarkerThatIsNotToldTakesNoLockBack(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		q := nodes.client(t, QuorumConfig{}).quorum
		q.nodes[0].learn("1")
		for _, unheard := range []error{
			driver.NewServerError("NOPERM No permissions to access a key"), errLostReply, driver.NotSent(errLostReply),
		} {
			var given taken
			_, err := q.reader(&request{name: "k"}, &given)(0, []driver.Result{{Value: "OK"}, {Err: unheard}})
			assert.ErrorContains(t, err, unheard.Error())
			assert.NotErrorAs(t, err, new(errNew))
			assert.NotEqual(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
			assert.True(t, given.certain.has(0))
			assert.NotNil(t, q.nodes[0].marker.Load())
		}
	})
}
