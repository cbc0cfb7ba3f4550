package rueidis

import (
	"testing"
	"testing/synctest"

	rue "github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
)

// A hook that found no room ends with the connection: rueidis could not close it
// otherwise.
func TestHooksEndWithConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &channelConn{arrivals: make(chan arrival), closed: make(chan struct{})}
		returned := false
		go func() {
			s.onMessage(rue.PubSubMessage{Channel: "ch"})
			returned = true
		}()
		synctest.Wait()
		assert.False(t, returned, "a message was dropped")
		close(s.closed)
		synctest.Wait()
		assert.True(t, returned)
	})
}
