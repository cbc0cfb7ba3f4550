package locker

import (
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
