package main

import (
	"io"
	"time"
)

// leavingTime is how long lockctl waits for a client that has no lock to be closed.
const leavingTime = time.Second

// leave closes a client that has no lock, as far as it knows, or none that anybody works
// under. A server that answers is told at once that nobody waits any more, and that what was asked
// for and not answered is given up. A server that hangs would hold up lockctl and its exit code for
// seconds, and what it does on waking up expires anyway.
func leave(client io.Closer) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = client.Close()
	}()
	timer := time.NewTimer(leavingTime)
	defer timer.Stop()
	select {
	case <-closed:
	case <-timer.C:
	}
}
