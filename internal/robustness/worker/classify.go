package worker

import (
	"context"
	"errors"

	"github.com/golocker/golocker/internal/robustness/history"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// refused tells whether a lock was not had because others hold it.
func refused(err error) bool {
	return errors.Is(err, locker.ErrLocked) || errors.Is(err, locker.ErrDeadlock)
}

// classify returns the kind of an error. What is said first decides.
func classify(err error) history.Class {
	for _, is := range []struct {
		target error
		class  history.Class
	}{
		{locker.ErrNotHeld, history.Lost},
		{locker.ErrLost, history.Lost},
		{locker.ErrUnknown, history.Unknown},
		{locker.ErrUnavailable, history.Unavailable},
		{locker.ErrForeign, history.Denied},
		{context.Canceled, history.Canceled},
		{context.DeadlineExceeded, history.Canceled},
	} {
		if errors.Is(err, is.target) {
			return is.class
		}
	}
	if _, ok := errors.AsType[*driver.ServerError](err); ok {
		return history.Denied
	}
	return history.Other
}
