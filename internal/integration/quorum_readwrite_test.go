package integration_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
)

// Readers share, the writer who waits for them keeps new ones out, and is gone when it
// has had its turn or has given up; with one node dead and another hung.
func TestQuorumReadersAndAWriterWithNodesDown(t *testing.T) {
	eachFleet(t, 5, func(t *testing.T, q fleet) {
		a, b := q.client(t, locker.TTL(renewedTTL)), q.client(t, locker.TTL(renewedTTL))
		warm(t, a)
		warm(t, b)
		q.servers[1].Kill()
		q.servers[3].Pause()
		reader, writer := readKind.on(b, "k"), writeKind.on(b, "k")
		var order tokenOrder
		for _, givesUp := range []bool{true, false} {
			first, second := mustLock(t, readKind.on(a, "k")), mustLock(t, reader)
			_, err := writer.TryLock(soon(t))
			require.ErrorIs(t, err, locker.ErrLocked)
			mustUnlock(t, mustLock(t, reader)) // who does not wait keeps nobody out

			ctx, cancel := context.WithCancel(soon(t))
			defer cancel()
			waiting := goLock(ctx, writer)
			assertNoReader(t, reader)
			assert.True(t, survivesRenewals(first, 1), "%v", first.Err())
			if givesUp {
				cancel()
				require.ErrorIs(t, (<-waiting).err, context.Canceled)
				third := mustLock(t, reader)
				mustUnlock(t, third)
			}
			mustUnlock(t, first)
			mustUnlock(t, second)
			if givesUp {
				continue
			}
			write := had(t, waiting).lease
			order.next(t, write)
			_, err = reader.TryLock(soon(t))
			require.ErrorIs(t, err, locker.ErrLocked)
			mustUnlock(t, write)
			mustUnlock(t, mustLock(t, reader))
		}
		q.servers[3].Resume()
		q.assertEmptyWithin(t, renewedTTL+patience)
	})
}

// assertNoReader waits until no more readers are let in.
func assertNoReader(t *testing.T, reader *locker.Mutex) {
	t.Helper()
	eventually(t, "the writer who waits keeps readers out", func() bool {
		lease, err := reader.TryLock(soon(t))
		if err != nil {
			require.ErrorIs(t, err, locker.ErrLocked)
			return true
		}
		mustUnlock(t, lease)
		return false
	})
}
