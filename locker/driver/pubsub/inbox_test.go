package pubsub

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/locker/driver"
)

// Gaps take no room from messages, nor give any.
func TestInboxHasItsRoomForMessages(t *testing.T) {
	var b inbox
	message := item{message: driver.Message{Channel: "a"}}
	for range 3 * MaxBuffered {
		b.add(item{gap: true})
		b.add(item{gap: true})
		got, ok := b.take()
		assert.True(t, ok && got.gap)
		_, ok = b.take()
		assert.False(t, ok, "two gaps are one")
	}
	for range 2 * MaxBuffered {
		b.add(message)
	}
	for range MaxBuffered {
		got, ok := b.take()
		assert.True(t, ok && !got.gap)
	}
	got, ok := b.take()
	assert.True(t, ok && got.gap)
	_, ok = b.take()
	assert.False(t, ok)
}
