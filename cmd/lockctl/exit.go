package main

import (
	"errors"
	"fmt"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// Exit codes. Those up to 78 mean what sysexits.h says, as with flock(1), and the last ones
// what they mean in shells; docs/lockctl.md lists them.
const (
	exitFindings    = 1   // doctor has found a problem
	exitDeclined    = 1   // break was told not to
	exitUsage       = 64  // the command line cannot be used
	exitForeign     = 65  // the key holds something else than the lock that was asked for
	exitNotHeld     = 66  // nobody holds the lock that was to be broken, or others hold it than those who were shown
	exitUnreachable = 69  // the server cannot be reached, does not answer in time, or does not serve at present
	exitFailed      = 70  // something else went wrong
	exitNotHad      = 75  // the lock is held by others; try later
	exitRefused     = 77  // the server refused a command
	exitLost        = 79  // the lock was lost while the command ran
	exitCannotRun   = 126 // the command was found and could not be run
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // plus the number of the signal by which the command was ended
)

// An exitError is an error with an exit code of its own.
type exitError struct {
	code int
	err  error // nil if there is nothing to say
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func usage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// exitCode returns the code with which lockctl ends after err.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	_, refused := errors.AsType[*driver.ServerError](err)
	switch {
	case errors.Is(err, locker.ErrInvalid), errors.Is(err, driver.ErrUnsupported):
		return exitUsage
	case errors.Is(err, locker.ErrForeign):
		return exitForeign
	case errors.Is(err, locker.ErrLocked):
		return exitNotHad
	case errors.Is(err, locker.ErrUnavailable), errors.Is(err, locker.ErrUnknown), errors.Is(err, locker.ErrWaitTimeout):
		return exitUnreachable // also where a wait ends without an answer
	case errors.Is(err, locker.ErrLost), errors.Is(err, locker.ErrNotHeld):
		return exitLost
	case refused:
		return exitRefused
	}
	return exitFailed
}
