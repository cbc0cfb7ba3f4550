package integration_test

import (
	"testing"
	"time"

	"github.com/golocker/golocker/conformance/wire"
	"github.com/golocker/golocker/redlock"
)

// A NodeTimeout that is well above a round trip may be below the several that a connection
// takes: with all nodes so far away there are locks all the same.
func TestQuorumOfNodesThatAreFarAway(t *testing.T) {
	eachFleet(t, 3, func(t *testing.T, q fleet) {
		c, far := q.wired(t, redlock.Config{NodeTimeout: 800 * time.Millisecond})
		far.each(wire.Match{Times: -1}, wire.Delay(250*time.Millisecond))
		mustUnlock(t, mustLock(t, c.Mutex("k")))
	})
}
