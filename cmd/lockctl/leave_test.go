package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// A hungClient is not closed before its channel is.
type hungClient chan struct{}

func (h hungClient) Close() error {
	<-h
	return nil
}

// A server that hangs keeps nobody who has no lock.
func TestLeavingIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := make(hungClient)
		begun := time.Now()
		leave(client)
		assert.Equal(t, leavingTime, time.Since(begun))
		close(client)
		begun = time.Now()
		leave(client)
		assert.Zero(t, time.Since(begun), "one that answers is waited for, and not the time")
	})
}
