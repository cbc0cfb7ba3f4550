package locker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestSpanCallsWhoWatchesItAtItsEnd(t *testing.T) {
	quorumBubble(t, 3, func(t *testing.T, nodes fakeQuorum) {
		s := nodes.client(t, QuorumConfig{}).quorum.span()
		begun := time.Now()
		var called [5]time.Duration
		watch := func(i int) (stop func() bool) {
			return s.OnEnd(func() { called[i] = time.Since(begun) })
		}
		for i := range called {
			stop := watch(i)
			if i%2 == 1 {
				assert.True(t, stop(), "the first of the list")
				assert.False(t, stop(), "for the second time")
			}
		}
		first, second := watch(0), watch(2)
		assert.True(t, first(), "one in the middle")
		assert.True(t, second())
		<-s.Done()
		synctest.Wait()
		end := DefaultNodeTimeout
		assert.Equal(t, [...]time.Duration{end, 0, end, 0, end}, called)
		time.Sleep(time.Second)
		assert.False(t, watch(1)(), "it has ended")
		synctest.Wait()
		assert.Equal(t, end+time.Second, called[1])
	})
}

// Whichever of those who watch take that back, and in whatever order: the others are called.
func TestSpanCallsTheOthersWhoWatchIt(t *testing.T) {
	const watches = 4
	var orders [][]int // in which some of them do so
	for next := [][]int{nil}; len(next) > 0; next = next[1:] {
		orders = append(orders, next[0])
		for i := range watches {
			if !slices.Contains(next[0], i) {
				next = append(next, append(slices.Clone(next[0]), i))
			}
		}
	}
	synctest.Test(t, func(t *testing.T) {
		for _, order := range orders {
			var s span
			var called [watches]bool
			var stops [watches]func() bool
			for i := range stops {
				stops[i] = s.OnEnd(func() { called[i] = true })
			}
			for _, i := range order {
				assert.True(t, stops[i](), "%d of %v", i, order)
			}
			s.end()
			synctest.Wait()
			for i := range called {
				assert.Equal(t, !slices.Contains(order, i), called[i], "%d, without %v", i, order)
			}
		}
	})
}
