package pubsub

import "github.com/golocker/golocker/locker/driver"

// An inbox is what waits for Receive, in order: messages, at most MaxBuffered,
// and gaps, never two in a row.
type inbox struct {
	items    []item
	messages int
}

type item struct {
	message driver.Message
	gap     bool
}

// add appends a message, or a gap in its place when there is no room.
func (b *inbox) add(m driver.Message) {
	if b.messages >= MaxBuffered {
		b.addGap()
		return
	}
	b.items = append(b.items, item{message: m})
	b.messages++
}

func (b *inbox) addGap() {
	if n := len(b.items); n == 0 || !b.items[n-1].gap {
		b.items = append(b.items, item{gap: true})
	}
}

// take removes and returns the first item.
func (b *inbox) take() (item, bool) {
	if len(b.items) == 0 {
		return item{}, false
	}
	first := b.items[0]
	b.items[0] = item{} // do not keep the payload alive
	b.items = b.items[1:]
	if len(b.items) == 0 {
		b.items = nil
	}
	if !first.gap {
		b.messages--
	}
	return first, true
}
