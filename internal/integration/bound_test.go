package integration_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// largestEntry is what docs/security.md says of a record, and of an entry in a queue.
const largestEntry = 6 << 10

// What a client can make the server keep is bounded by what its options allow, and not by
// how many of its goroutines want a mutex.
func TestWhatWaitersCostTheServerIsBounded(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		large := []locker.ClientOption{locker.Label(strings.Repeat("l", 256)), locker.Metadata(strings.Repeat("m", 4096))}
		holder, waiters := d.client(t, srv.Addr, large...), d.client(t, srv.Addr, large...)
		owner := locker.NamedOwner(strings.Repeat("o", 256))
		name := strings.Repeat("n", 1024)
		for _, kind := range []lockKind{plainKind, writeKind} {
			held := mustLock(t, kind.on(holder, name))
			ctx, cancel := context.WithCancel(t.Context())
			goroutines, places := 1, 1
			if kind.name == plainKind.name {
				goroutines = 200
			}
			var done []<-chan lockResult
			for range goroutines {
				done = append(done, goLock(ctx, kind.on(waiters, name, locker.As(owner))))
			}
			assertWaiters(t, holder, name, places)
			entries := do(t, srv, "HVALS", "__golocker:w:{"+name+"}:"+name).([]any)
			require.Len(t, entries, places, kind.name)
			assert.Less(t, len(entries[0].(string)), largestEntry)
			assert.Contains(t, entries[0], strings.Repeat("m", 4096))
			record := do(t, srv, "DUMP", name).(string)
			assert.Less(t, len(record), largestEntry)
			connections := strings.Count(do(t, srv, "CLIENT", "LIST").(string), "\n")
			assert.Less(t, connections, 50, "waiting goroutines have connections of their own")
			cancel()
			for _, waiter := range done {
				r := <-waiter
				assert.ErrorIs(t, r.err, context.Canceled)
			}
			assertWaiters(t, holder, name, 0)
			require.NoError(t, held.Unlock(soon(t)))
		}
		assertMortal(t, srv)
	})
}

// A megabyte that somebody else has put at a lock's key is not sent to all who wait for it.
func TestALargeForeignValueIsNotSent(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		do(t, srv, "SET", "k", strings.Repeat("x", 4<<20), "PX", "600000")
		do(t, srv, "CONFIG", "RESETSTAT")
		for range 5 {
			_, err := c.Mutex("k").Lock(within(t, 0))
			require.Error(t, err)
			_, err = c.Mutex("k").TryLock(soon(t))
			require.ErrorIs(t, err, locker.ErrLocked)
			_, err = c.Inspect(soon(t), "k")
			require.NoError(t, err)
		}
		info := do(t, srv, "INFO", "stats").(string)
		_, rest, _ := strings.Cut(info, "total_net_output_bytes:")
		sent, _, _ := strings.Cut(rest, "\r\n")
		assert.Less(t, len(sent), 7, "%s bytes were sent", sent)
	})
}

// The queue of a lock is bounded, too. Whoever finds it full polls, and those in it who
// have died make room.
func TestAWaiterThatFindsTheQueueFullPolls(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		const most, queue, entries = 10000, "__golocker:q:{k}:k", "__golocker:w:{k}:k"
		fill := func(places int, until string) {
			do(t, srv, "EVAL", `for i = 1, ARGV[1] do
				local id = string.format('%032x', i)
				redis.call('ZADD', KEYS[1], i, id)
				redis.call('HSET', KEYS[2], id, 'gl1|0|0|' .. ARGV[2] .. '|' .. i .. '|m|' .. id .. '|30000|60000|||x|')
			end
			redis.call('PEXPIRE', KEYS[1], 600000) redis.call('PEXPIRE', KEYS[2], 600000)`, "2", queue, entries, strconv.Itoa(places), until)
		}
		const never, ago = "99999999999999", "1"
		holder, waiter := d.client(t, srv.Addr), d.client(t, srv.Addr)
		mine := func() bool { return do(t, srv, "ZCOUNT", queue, "("+strconv.Itoa(most), "+inf").(int64) > 0 }

		lease := mustLock(t, holder.Mutex("k"))
		fill(most-1, never)
		ctx, cancel := context.WithCancel(soon(t))
		last := goLockWaiting(t, ctx, waiter.Mutex("k"), holder)
		cancel()
		<-last
		eventually(t, "who gives up leaves", func() bool { return !mine() })
		fill(most, never)
		done := goLock(soon(t), waiter.Mutex("k"))
		lasts(t, 2*time.Second, func() { require.False(t, mine(), "there is no room") })
		fill(most, ago)
		eventually(t, "there is a place once the others have died", mine)
		require.NoError(t, lease.Unlock(soon(t)))
		mustUnlock(t, had(t, done).lease)
	})
}
