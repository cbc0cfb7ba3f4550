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

// tell passes i to hear.
func (i item) tell(hear func(driver.Message, error)) {
	if i.gap {
		hear(driver.Message{}, driver.ErrGap)
	} else {
		hear(i.message, nil)
	}
}

// add appends i, or a gap in the place of a message for which there is no room.
func (b *inbox) add(i item) {
	if !i.gap && b.messages < MaxBuffered {
		b.items = append(b.items, i)
		b.messages++
	} else if n := len(b.items); n == 0 || !b.items[n-1].gap {
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
