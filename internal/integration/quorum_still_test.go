package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/redlock"
)

// A server that stood still executes what had been sent to it before. The connection is gone by then, and so is that of
// the release.
func TestQuorumNodeThatStoodStillKeepsNoLockOfNobody(t *testing.T) {
	eachFleet(t, 3, func(t *testing.T, q fleet) {
		const answers = 200 * time.Millisecond
		c := q.client(t, redlock.Config{NodeTimeout: answers})
		mustUnlock(t, mustLock(t, c.Mutex("warm", locker.Fenced())))
		for i, opts := range [][]locker.Option{{locker.Fenced()}, {locker.Reentrant()}, {locker.ForWriting(), locker.Fenced()}} {
			node, name := q.servers[i], fmt.Sprint("k", i)
			node.Pause()
			lease := mustLock(t, c.Mutex(name, append(opts, locker.TTL(time.Minute))...))
			time.Sleep(5 * time.Millisecond) // else it is never asked
			mustUnlock(t, lease)
			time.Sleep(4 * answers) // it stands still
			node.Resume()
			_, err := node.Do("PING") // behind what had come in before
			require.NoError(t, err)
			assert.Eventually(t, func() bool {
				held, err := node.Do("EXISTS", name)
				return err == nil && fmt.Sprint(held) == "0"
			}, patience, 10*time.Millisecond, "%s", name)
		}
	})
}
