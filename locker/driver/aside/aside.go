// Package aside lets a call return when its context ends even if the client underneath does
// not. It is written for the author of a driver whose client does not heed cancellation, or
// heeds it only in some places.
package aside

import (
	"context"

	"github.com/golocker/golocker/locker/driver"
)

// Call runs f in a goroutine of its own and returns what f does. It returns earlier
// when ctx ends, with ctx's error, or when done is closed, with [driver.ErrClosed];
// done may be nil. Then f goes on alone, what it works on must not be touched any
// more, and what it returns in the end is given to discard, which may be nil.
//
// An error says only that nobody waited for f: the outcome is unknown, unless the
// caller knows better.
func Call[T any](ctx context.Context, done <-chan struct{}, f func() T, discard func(T)) (T, error) {
	result := make(chan T, 1)
	go func() { result <- f() }()
	select {
	case r := <-result:
		return r, nil
	case <-ctx.Done():
	case <-done:
	}
	select {
	case r := <-result: // at the same moment: a known outcome is worth more
		return r, nil
	default:
	}
	if discard != nil {
		go func() { discard(<-result) }()
	}
	var none T
	if err := ctx.Err(); err != nil {
		return none, err
	}
	return none, driver.ErrClosed
}

// Open is [Call] for a function that opens something: a connection, or a client whose
// constructor connects. If nobody waits for that any more, close is called with what has been
// opened.
func Open[T any](ctx context.Context, done <-chan struct{}, open func() (T, error), close func(T)) (T, error) {
	type opened struct {
		it  T
		err error
	}
	o, err := Call(ctx, done, func() opened {
		it, err := open()
		return opened{it, err}
	}, func(late opened) {
		if late.err == nil {
			close(late.it)
		}
	})
	if err == nil {
		err = o.err
	}
	return o.it, err
}
