package locker

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// portionTested is what smallPortions makes a portion, and what the model of histories goes by.
const portionTested = 2

// smallPortions has a script let so few readers in until the end of the test.
func smallPortions(t *testing.T) {
	t.Helper()
	before := holdFamily
	t.Cleanup(func() { holdFamily = before })
	for _, s := range []**script{&holdFamily.acquire, &holdFamily.release, &holdFamily.giveUp} {
		source := strings.Replace((*s).source(), "local portion = 128\n", "local portion = 2\n", 1)
		require.NotEqual(t, (*s).source(), source)
		small := newScript(source)
		small.verdict, small.most = (*s).verdict, (*s).most
		*s = small
	}
}

// A script that lets all readers in who wait keeps the server from all else, for 0.4 s where
// 10 000 do. So the release lets a portion of them in, however many wait.
func TestManyWaitingReadersCostTheReleaseNoMore(t *testing.T) {
	g := newGathering(t)
	release := func(n int) func() {
		name := strings.Repeat("k", n)
		writing := must(t, g.client.Mutex(name, ForWriting()))
		for range n {
			require.ErrorIs(t, g.ask(name, modeRead, newcomer(), true), ErrLocked)
		}
		return func() { require.NoError(t, writing.Unlock(t.Context())) }
	}
	few, many := g.commands(release(200)), g.commands(release(600))
	assert.Less(t, many, few*3/2, "commands for a release before 600 readers, and before 200")
}

// The first reader of each portion is told to ask, and its request lets the next portion in: no
// reader waits for its poll. The order is that of arrival, also for those who come meanwhile.
func TestReadersThatAreLetInByPortionsAreAllTold(t *testing.T) {
	smallPortions(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		read, write := c.Mutex("k", ForReading()), c.Mutex("k", ForWriting())
		first := must(t, write)
		var readers, behind []<-chan *Lease
		for range 9 {
			readers = append(readers, background(t, read))
			time.Sleep(time.Millisecond)
		}
		writer := background(t, write)
		time.Sleep(time.Millisecond)
		for range 5 {
			behind = append(behind, background(t, read))
			time.Sleep(time.Millisecond)
		}
		all := func(waiting []<-chan *Lease) (leases []*Lease) {
			begun := time.Now()
			for _, w := range waiting {
				lease := granted(w)
				require.NotNil(t, lease)
				leases = append(leases, lease)
			}
			assert.Zero(t, time.Since(begun), "without a poll")
			return leases
		}
		require.NoError(t, first.Unlock(t.Context()))
		inside := all(readers)
		assert.Nil(t, granted(writer))
		for _, l := range inside {
			require.NoError(t, l.Unlock(t.Context()))
		}
		second := granted(writer)
		require.NotNil(t, second)
		for _, w := range behind {
			assert.Nil(t, granted(w))
		}
		require.NoError(t, second.Unlock(t.Context()))
		all(behind)
	})
}

// Who is told to ask, and has died, costs those behind it no more than a poll: whoever asks
// goes on.
func TestReadersBehindADeadOneThatWasToldAreLetInByAPoll(t *testing.T) {
	smallPortions(t)
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		c.store.link.counts.Store(false) // as in a Cluster, where nobody is known to be deaf
		writing := must(t, c.Mutex("k", ForWriting()))
		var waiting []<-chan *Lease
		for range portionTested {
			waiting = append(waiting, background(t, c.Mutex("k", ForReading())))
			time.Sleep(time.Millisecond)
		}
		m := c.Mutex("k", ForReading())
		dead := &request{name: "k", keys: &m.keys, mode: modeRead, id: newID(), owner: "dead", tail: "|", ttl: time.Minute, px: "60000"}
		_, _, err := c.store.acquire(t.Context(), dead, place{reservation: newID(), channel: "nobody's", life: time.Minute})
		require.ErrorIs(t, err, ErrLocked)
		for range 2 * portionTested {
			waiting = append(waiting, background(t, c.Mutex("k", ForReading())))
			time.Sleep(time.Millisecond)
		}
		require.NoError(t, writing.Unlock(t.Context()))
		begun := time.Now()
		for _, w := range waiting {
			assert.NotNil(t, <-w)
		}
		assert.LessOrEqual(t, time.Since(begun), pollInterval)
	})
}
