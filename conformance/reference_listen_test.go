package conformance_test

import (
	"context"
	"errors"
	"time"

	"github.com/golocker/golocker/locker/driver"
)

var _ driver.Listener = (*refSub)(nil)

// Listen hears what read has read, in its goroutine.
func (s *refSub) Listen(ctx context.Context, hear func(driver.Message, error)) error {
	tell := func(entry any) {
		switch e, isErr := entry.(error); {
		case !isErr:
			hear(entry.(driver.Message), nil)
		case !s.has("sub-listen-hears-no-gap"):
			hear(driver.Message{}, e)
		}
	}
	s.mu.Lock()
	if !s.has("sub-listen-forgets-what-was-before") {
		for _, entry := range s.queue {
			tell(entry)
		}
	}
	s.queue = nil
	s.hear = tell
	if s.has("sub-listen-loses-at-its-end") {
		s.hear = func(entry any) {
			if ctx.Err() == nil {
				tell(entry)
			}
		}
	}
	if s.has("sub-listen-hears-two-at-a-time") {
		s.hear = func(entry any) { go tell(entry) }
	}
	s.mu.Unlock()
	waiting := ctx
	if s.has("sub-listen-ignores-ctx") {
		waiting = context.WithoutCancel(ctx)
	}
	err := s.wait(waiting, func() (bool, error) { return false, nil })
	switch {
	case s.has("sub-listen-hears-on"):
		return err
	case s.has("sub-listen-ends-with-nil"):
		return nil
	case s.has("sub-listen-tells-of-its-end"):
		hear(driver.Message{}, err)
	case s.has("sub-listen-loses-at-its-end"):
		time.Sleep(time.Millisecond)
	case s.has("sub-listen-outlives-close") && errors.Is(err, driver.ErrClosed):
		<-ctx.Done()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hear = nil
	return err
}
