// Package fencing is the code of docs/fencing.md: guards that make a store refuse who
// has lost the lock.
package fencing

import "errors"

// ErrOutdated tells that a later holder of the lock has been here: whoever gets it must
// stop, and has changed nothing.
var ErrOutdated = errors.New("fencing: a later holder of the lock has been here")

// ErrUnfenced tells that the lock has no tokens: who let it pass would guard nothing.
var ErrUnfenced = errors.New("fencing: the lock is not Fenced")
