package locker

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// company has n others of the same client wait for m. They never ask.
func company(t *testing.T, m *Mutex, n int) {
	for range n {
		s := m.client.hub.join(m, time.Now())
		t.Cleanup(func() { m.client.hub.leave(s) })
	}
}

// asks is how many scripts are executed in so long.
func (f *fakeDeployment) asks(d time.Duration) (n int) {
	f.reset()
	time.Sleep(d)
	for _, name := range f.commands() {
		if name == "EVALSHA" {
			n++
		}
	}
	return n
}

// Thousands of goroutines of a client that wait for a lock with owners are told when it is free.
// That each looked once a second would take a whole processor of the server, though nothing
// happens; so would it if each looked when the holder's lease could end, which it renews.
func TestManyWaitersOfAClientLookNoMoreOftenTogether(t *testing.T) {
	for name, ttl := range map[string]time.Duration{"a long lease": time.Hour, "a short lease": 2 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, f *fakeDeployment) {
				writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(ttl)))
				c := f.client(t)
				const n, others, d = 10, 1500, time.Minute
				company(t, c.Mutex("k", ForReading()), others)
				var waiting []<-chan *Lease
				for range n {
					waiting = append(waiting, background(t, c.Mutex("k", ForReading())))
				}
				const together = n + others // that many looks each pollPause·together, of which these are n
				renewals := int(d / (ttl / 3))
				assert.Less(t, f.asks(d)-renewals, int(2*d*n/(together*pollPause)), "scripts in %v", d)
				s, err := c.Inspect(t.Context(), "k")
				require.NoError(t, err)
				assert.Equal(t, n, s.Waiters, "all keep their places")
				require.NoError(t, writing.Unlock(t.Context()))
				for _, w := range waiting {
					assert.NotNil(t, granted(w))
				}
			})
		})
	}
}

// Those that hear nothing look more often, but no more often than they need to.
func TestManyWaitersThatHearNothingLookOnceASecond(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		f.noPubSub = true
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Hour)))
		m := f.client(t).Mutex("k", ForReading())
		company(t, m, 1500)
		waiting := background(t, m)
		time.Sleep(pollInterval)
		assert.LessOrEqual(t, f.asks(time.Minute), 80)
		require.NoError(t, writing.Unlock(t.Context()))
		begun := time.Now()
		assert.NotNil(t, <-waiting)
		assert.LessOrEqual(t, time.Since(begun), pollInterval)
	})
}

// A holder that has died tells nobody. Its lock is had when the lease has run out, however many
// wait for it, or for others.
func TestManyWaitersOfAClientFindTheEndOfALeaseInTime(t *testing.T) {
	for _, n := range []int{1, 20} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			company(t, c.Mutex("other", ForWriting()), 1500)
			_, err := f.client(t).Mutex("k", ForWriting(), TTL(3*time.Second), NoRenewal()).Lock(t.Context())
			require.NoError(t, err)
			begun := time.Now()
			var waiting []<-chan *Lease
			for range n {
				waiting = append(waiting, background(t, c.Mutex("k", ForReading())))
			}
			for _, w := range waiting {
				assert.NotNil(t, <-w)
			}
			assert.Less(t, time.Since(begun), 3*time.Second+told)
		})
	}
}

// Whoever gets the lock while another one waits is not the holder whose end that one knows of, and
// may die as well.
func TestAWaiterInACrowdFindsTheEndOfALeaseThatWasHandedOver(t *testing.T) {
	for _, others := range []int{0, 1500, 3700} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			company(t, c.Mutex("other", ForWriting()), others)
			first := must(t, f.client(t).Mutex("k", ForWriting()))
			second := background(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Second), NoRenewal()))
			waiting := background(t, c.Mutex("k", ForWriting()))
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, first.Unlock(t.Context()))
			begun := time.Now()
			require.NotNil(t, granted(second))
			require.NotNil(t, <-waiting)
			assert.LessOrEqual(t, time.Since(begun), time.Second+pollInterval+told)
		})
	}
}

// Of several readers the last one may not be who was named.
func TestAWriterInACrowdFindsTheEndOfTheLastReader(t *testing.T) {
	for range 8 {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			company(t, c.Mutex("other", ForWriting()), 1500)
			first := must(t, f.client(t).Mutex("k", ForReading()))
			must(t, f.client(t).Mutex("k", ForReading(), TTL(time.Second), NoRenewal()))
			begun := time.Now()
			waiting := background(t, c.Mutex("k", ForWriting()))
			time.Sleep(20 * time.Millisecond)
			require.NoError(t, first.Unlock(t.Context()))
			require.NotNil(t, <-waiting)
			assert.LessOrEqual(t, time.Since(begun), time.Second+pollInterval+told)
		})
	}
}

// Those who wait for a lock of their own each are many all the same.
func TestManyWaitersForManyLocksLookNoMoreOftenTogether(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		const others, d = 1500, time.Minute
		for i := range others {
			company(t, c.Mutex(fmt.Sprint(i), ForWriting()), 1)
		}
		writing := must(t, f.client(t).Mutex("k", ForWriting(), TTL(time.Hour)))
		waiting := background(t, c.Mutex("k", ForWriting()))
		time.Sleep(pollInterval)
		assert.LessOrEqual(t, f.asks(d), int(2*d/(others*pollPause)))
		require.NoError(t, writing.Unlock(t.Context()))
		assert.NotNil(t, granted(waiting))
	})
}

// A message that is lost costs one of many waiters more than a second, but no more than half its
// TTL: a grant that it has not heard of still lasts when it looks.
func TestLostMessageCostsOneOfManyWaitersLessThanItsTTL(t *testing.T) {
	const others = 1499
	for ttl, most := range map[time.Duration]time.Duration{DefaultTTL: (others + 1) * pollPause, 3 * time.Second: 1500 * time.Millisecond} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			c := f.client(t)
			company(t, c.Mutex("k", ForWriting()), others)
			must(t, f.client(t).Mutex("k", ForWriting()))
			waiting := background(t, c.Mutex("k", ForWriting(), TTL(ttl)))
			time.Sleep(15 * time.Second)
			f.Del("k") // as a foreign DEL: nobody publishes
			begun := time.Now()
			assert.NotNil(t, <-waiting)
			assert.LessOrEqual(t, time.Since(begun), most)
		})
	}
}
