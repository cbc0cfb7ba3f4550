package driver

import (
	"context"
	"errors"
)

// A Listener is a Subscription that hands on what arrives from the very goroutine that has read
// it, so that a message wakes up nobody on its way but the one it is for.
//
// Without it, [Listen] calls Receive again and again.
type Listener interface {
	// Listen calls hear with every message that arrives, and with [ErrGap] where Receive would
	// return that, one after the other, until ctx ends or the Subscription is closed. Then it
	// returns as Receive does, and hear is not called any more. While Listen runs, nobody may
	// be in Receive.
	//
	// hear must not block, nor call the Subscription.
	Listen(ctx context.Context, hear func(Message, error)) error
}

// Listen gives hear all that sub receives, until ctx ends, or the first error that is
// no [ErrGap], which it returns.
func Listen(ctx context.Context, sub Subscription, hear func(Message, error)) error {
	if l, ok := sub.(Listener); ok {
		return l.Listen(ctx, hear)
	}
	for {
		m, err := sub.Receive(ctx)
		if err != nil && !errors.Is(err, ErrGap) {
			return err
		}
		hear(m, err)
	}
}
