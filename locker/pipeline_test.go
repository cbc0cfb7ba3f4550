package locker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver/aside"
)

// A tube is a pipeline whose requests end when they are told to.
type tube struct {
	pipeline[int]
	sent [][]int
	end  chan bool // true leaves the request to itself
}

func newTube(t *testing.T, most int) *tube {
	p := &tube{end: make(chan bool)}
	p.crew, p.room, p.usual, p.most = &aside.Crew{}, 3, 1, most
	p.request = func(batch []int) bool {
		p.mu.Lock()
		p.sent = append(p.sent, slices.Clone(batch))
		p.mu.Unlock()
		left := <-p.end
		if left {
			p.leave()
		}
		return !left
	}
	t.Cleanup(p.crew.Close)
	return p
}

// addAll adds each when those before have gone as far as they can.
func (p *tube) addAll(all ...int) {
	for _, x := range all {
		p.add(x)
		synctest.Wait()
	}
}

// ends tells so many requests to end.
func (p *tube) ends(n int, left bool) {
	for range n {
		p.end <- left
		synctest.Wait()
	}
}

// take returns what was sent since the last call.
func (p *tube) take() [][]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	sent := p.sent
	p.sent = nil
	return sent
}

// While the server answers soon requests go out in order, with all that has come meanwhile.
func TestPipelineOfAServerThatAnswersSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTube(t, 4)
		p.addAll(1, 2, 3, 4, 5)
		time.Sleep(soon / 2)
		assert.Equal(t, [][]int{{1}}, p.take())
		p.ends(1, false)
		assert.Equal(t, [][]int{{2, 3, 4}}, p.take())
		p.ends(1, true)
		assert.Equal(t, [][]int{{5}}, p.take(), "although the one before has no end")
		p.ends(1, false)
		assert.True(t, p.idle())
		time.Sleep(2 * soon)
		p.close()
		assert.Empty(t, p.take())
	})
}

// One that takes long holds up nobody for longer than that. But no more are begun than may be.
func TestPipelineOfAServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTube(t, 4)
		defer p.close()
		for range 2 { // the timer is used again
			p.addAll(1, 2)
			assert.Equal(t, [][]int{{1}}, p.take())
			time.Sleep(soon)
			synctest.Wait()
			assert.Equal(t, [][]int{{2}}, p.take())
			p.addAll(3)
			assert.Empty(t, p.take())
			time.Sleep(soon)
			synctest.Wait()
			assert.Equal(t, [][]int{{3}}, p.take())
			time.Sleep(2 * soon)
			p.addAll(4)
			assert.Equal(t, [][]int{{4}}, p.take(), "the others have taken long already")
			p.addAll(5, 6)
			time.Sleep(time.Second)
			assert.Empty(t, p.take(), "as many as may be")
			p.ends(4, false)
			assert.Equal(t, [][]int{{5, 6}}, p.take())
			time.Sleep(2 * soon)
			p.ends(1, false)
			assert.True(t, p.idle())

			p.addAll(7, 8)
			assert.Equal(t, [][]int{{7}, {8}}, p.take(), "the last one has taken long")
			p.ends(2, false)
		}
	})
}

// Who closes a pipeline waits for its requests, and with them for all that is waiting. Nothing is taken any more.
func TestPipelineIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newTube(t, 4)
		p.addAll(1, 2)
		closed := make(chan struct{})
		go func() { p.close(); close(closed) }()
		time.Sleep(time.Second)
		assert.False(t, p.add(3))
		assert.Equal(t, [][]int{{1}}, p.take())
		p.ends(1, false)
		select {
		case <-closed:
			t.Error("not all is done")
		default:
		}
		p.ends(1, false)
		<-closed
		assert.Equal(t, [][]int{{2}}, p.take())
	})
}
