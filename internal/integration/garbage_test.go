package integration_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// someID has the form of the id of a lease.
const someID = "0123456789abcdef0123456789abcdef"

// brokenRecords are commands that write to the key "k" what looks like a lock of ours and
// is none. Each begins with a name for it.
var brokenRecords = [][]string{
	{"begins like a mutex", "SET", "k", "gl1|m|"},
	{"an id and no more", "SET", "k", "gl1|m|" + someID},
	{"a short id", "SET", "k", "gl1|m|0123|1|30000|label|"},
	{"an id that is none", "SET", "k", "gl1|m|" + strings.Repeat("z", 32) + "|1|30000|label|"},
	{"a token that is none", "SET", "k", "gl1|m|" + someID + "|one|30000|label|"},
	{"a TTL that is none", "SET", "k", "gl1|m|" + someID + "|1|long|label|"},
	{"without metadata", "SET", "k", "gl1|m|" + someID + "|1|30000|label"},
	{"another version", "SET", "k", "gl2|m|" + someID + "|1|30000|label|"},
	{"bytes", "SET", "k", "\x00\xff\r\n*3\r\n$3\r\nSET"},
	{"a megabyte", "SET", "k", strings.Repeat("gl1|m|", 1<<20/6)},
	{"a hold of nonsense", "HSET", "k", "gl1", "x", someID, "nonsense"},
	{"a hold of another version", "HSET", "k", "gl1", "rw", "w", "99999999999999", someID, "w|soon|30000|0|owner|label|"},
	{"a kind that is none", "HSET", "k", "gl1", "zz", someID, "x|1|1|1|o|l|m"},
	{"no kind", "HSET", "k", someID, "x|99999999999999|30000|0|owner|label|"},
	{"a token beyond all numbers", "HSET", "k", "gl1", "rw", "w", "soon", someID, "w|" + strings.Repeat("9", 400) + "|x|0|o|l|"},
}

// Whatever stands at a lock's key, each call tells so at once and leaves it as it is.
func TestWhatLooksLikeALockAndIsNoneIsForeign(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		for _, broken := range brokenRecords {
			do(t, srv, broken[1:]...)
			before := do(t, srv, "DUMP", "k")
			for _, kind := range lockKinds {
				m := kind.on(c, "k")
				for what, call := range map[string]func() error{
					"Lock":         func() error { _, err := m.Lock(soon(t)); return err },
					"TryLock":      func() error { _, err := m.TryLock(soon(t)); return err },
					"Attach":       func() error { _, err := m.Attach(soon(t), someID); return err },
					"ForceRelease": func() error { _, err := c.ForceRelease(soon(t), "k"); return err },
				} {
					if what == "ForceRelease" && broken[1] == "HSET" && broken[3] == "gl1" {
						continue // it is a lock of ours, and somebody wants it broken
					}
					var err error
					took := timed(func() { err = call() })
					assert.Less(t, took, patience, "%s: %s of a %s lock", broken[0], what, kind.name)
					if what == "Attach" && broken[1] == "SET" {
						require.Error(t, err, "%s: a %s lock was taken up", broken[0], kind.name)
						continue // it may be taken up by its id, if anybody has it
					}
					require.ErrorIs(t, err, locker.ErrForeign, "%s: %s of a %s lock", broken[0], what, kind.name)
				}
			}
			assert.Equal(t, before, do(t, srv, "DUMP", "k"), broken[0])
			// With a TTL it goes away by itself, whatever it is.
			if broken[1] == "SET" {
				do(t, srv, "PEXPIRE", "k", "300")
				require.NoError(t, mustLock(t, c.Mutex("k")).Unlock(soon(t)), broken[0])
			}
			srv.Flush()
		}
	})
}

// brokenSides are commands that put something at the keys beside the lock "k".
var brokenSides = [][]string{
	{"a token of letters", "SET", "__golocker:f:{k}:k", "many"},
	{"a token that is negative", "SET", "__golocker:f:{k}:k", "-5"},
	{"a token without end", "SET", "__golocker:f:{k}:k", "inf"},
	{"a token that is no number", "SET", "__golocker:f:{k}:k", "nan"},
	{"a token that numbers cannot be larger than", "SET", "__golocker:f:{k}:k", "9007199254740993"},
	{"a token of 400 digits", "SET", "__golocker:f:{k}:k", strings.Repeat("9", 400)},
	{"a list of tokens", "RPUSH", "__golocker:f:{k}:k", "1"},
	{"a list as the queue", "RPUSH", "__golocker:q:{k}:k", someID},
	{"a string as the queue", "SET", "__golocker:q:{k}:k", someID},
	{"a reservation of bytes", "ZADD", "__golocker:q:{k}:k", "1", "\x00\xff"},
	{"a reservation without end", "ZADD", "__golocker:q:{k}:k", "inf", someID},
	{"a reservation before all", "ZADD", "__golocker:q:{k}:k", "-inf", someID},
	{"entries of another type", "SET", "__golocker:w:{k}:k", "x"},
	{"an entry of another version", "HSET", "__golocker:w:{k}:k", someID, "gl2|1|0|99999999999999|1|m|x"},
	{"an id that is over and a list", "RPUSH", "__golocker:v:{k}:k:" + someID, "1"},
}

// What is wrong beside the lock is told at once, or does no harm. No token is granted that
// is not larger than the one before.
func TestWhatOthersWriteBesideALockIsToldOrHarmless(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(renewedTTL))
		for _, broken := range brokenSides {
			for _, kind := range lockKinds {
				do(t, srv, broken[1:]...)
				if broken[1] == "HSET" {
					do(t, srv, "ZADD", "__golocker:q:{k}:k", "1", someID)
				}
				var lease *locker.Lease
				var err error
				took := timed(func() { lease, err = kind.on(c, "k").Lock(within(t, patience)) })
				assert.Less(t, took, patience, "%s, %s", broken[0], kind.name)
				if err != nil {
					assert.ErrorIs(t, err, locker.ErrForeign, "%s, %s", broken[0], kind.name)
				} else {
					assert.Less(t, uint64(lease.Token()), uint64(1)<<53, "%s, %s", broken[0], kind.name)
					took := timed(func() { err = lease.Unlock(soon(t)) })
					assert.Less(t, took, patience, "%s, %s", broken[0], kind.name)
				}
				srv.Flush()
				lease, err = kind.on(c, "k").Lock(soon(t))
				require.NoError(t, err, "once it is put right: %s, %s", broken[0], kind.name)
				require.NoError(t, lease.Unlock(soon(t)))
				srv.Flush()
			}
		}
	})
}

// A lock beside which others write is given up all the same, and whoever waits for it has it or is told.
func TestWhatOthersWriteBesideALockThatIsWaitedForKeepsItFromNobody(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		for _, broken := range brokenSides {
			for _, kind := range lockKinds {
				what := broken[0] + ", " + kind.name
				a, b := d.client(t, srv.Addr, locker.Fenced()), d.client(t, srv.Addr, locker.Fenced())
				lease := mustLock(t, kind.on(a, "k"))
				waiting := goLockWaiting(t, soon(t), kind.against(b, "k"), a)
				if broken[1] == "SET" || broken[1] == "RPUSH" {
					replace(t, srv, broken[2], append([]string{broken[1]}, broken[3:]...)...)
				} else {
					do(t, srv, broken[1:]...)
				}
				status, err := a.Inspect(soon(t), "k")
				require.NoError(t, err, what)
				assert.True(t, status.Held(), what)
				require.NoError(t, lease.Unlock(soon(t)), what)
				r := <-waiting
				if r.err == nil {
					r.err = r.lease.Unlock(soon(t))
					assert.NoError(t, r.err, what)
				} else {
					assert.ErrorIs(t, r.err, locker.ErrForeign, what)
				}
				eventually(t, "the lock is free: "+what, func() bool { return do(t, srv, "EXISTS", "k") == int64(0) })
				require.NoError(t, a.Close(), what)
				require.NoError(t, b.Close(), what)
				srv.Flush()
			}
		}
	})
}

// What befalls the record of a lease that is held ends it in time, and is not
// overwritten by its holder.
func TestAHolderWhoseRecordIsOverwrittenLosesItAndLeavesItAlone(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr, locker.TTL(time.Second))
		before := map[*locker.Lease]any{}
		for _, kind := range lockKinds {
			for _, broken := range brokenRecords {
				if broken[0] == "a megabyte" {
					continue
				}
				name := kind.name + " " + broken[0]
				lease := mustLock(t, kind.on(c, name))
				do(t, srv, "DEL", name)
				do(t, srv, append([]string{broken[1], name}, broken[3:]...)...)
				before[lease] = do(t, srv, "DUMP", name)
			}
		}
		for lease, record := range before {
			assert.ErrorIs(t, lossOf(t, lease), locker.ErrLost, lease.Name())
			if err := lease.Unlock(soon(t)); err != nil {
				assert.True(t, isAny(err, locker.ErrNotHeld, locker.ErrForeign), "%s: %v", lease.Name(), err)
			}
			assert.Equal(t, record, do(t, srv, "DUMP", lease.Name()), lease.Name())
		}
	})
}

// Messages are hints. Those that nobody of ours has sent wake nobody into a lock that is
// held, and break nothing.
func TestForgedMessagesGrantNothing(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		a, b := d.client(t, srv.Addr, locker.Fenced()), d.client(t, srv.Addr, locker.Fenced())
		held := mustLock(t, a.Mutex("k"))
		waiting := goLockWaiting(t, t.Context(), b.Mutex("k"), a)
		assertAllListen(t, srv, "k")
		reservation := do(t, srv, "ZRANGE", "__golocker:q:{k}:k", "0", "0").([]any)[0].(string)
		channels := do(t, srv, "PUBSUB", "CHANNELS", "__golocker:c:*").([]any)
		require.NotEmpty(t, channels)
		parts := []string{"gl1", "gl2", "g", "w", "|", "", reservation, someID, "1", "-1", strings.Repeat("9", 30), "\x00", "\r\n", "{", "nan"}
		random := rand.New(rand.NewPCG(1, 2))
		for n := range 300 {
			message := strings.Repeat("|", n%3)
			for range random.IntN(9) {
				message += parts[random.IntN(len(parts))] + "|"
			}
			for _, channel := range channels {
				do(t, srv, "PUBLISH", channel.(string), message)
				do(t, srv, "PUBLISH", channel.(string), "gl1|g|"+reservation+"|"+parts[random.IntN(len(parts))]+"|7")
			}
		}
		for _, channel := range channels {
			do(t, srv, "PUBLISH", channel.(string), strings.Repeat("gl1|w|", 1<<18))
		}
		select {
		case r := <-waiting:
			require.FailNow(t, "a forged message has ended the wait", "%v", r.err)
		case <-time.After(200 * time.Millisecond):
		}
		require.NoError(t, held.Unlock(soon(t)))
		require.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
	})
}
