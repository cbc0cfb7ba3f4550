package integration_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// hostileNames are names of locks that may be used, whatever they look like.
var hostileNames = []string{
	"{", "}", "{}", "}{", "a}b", "{a}b", "{}{a}", "{a", "{{a}}", "{\x00}", "{}}", strings.Repeat("{", 1024),
	"\x00", "\x00\x01", "a\r\nDEL *\r\n", "\n", "*1\r\n$8\r\nFLUSHALL\r\n", "\xff\xfe", "\xc3\x28", "\xed\xa0\x80", "\u202e", " ",
	"*", "?", "[a-z]", "h[^e]llo", "\\", "%s%n%d", "'; DROP", "\"", "]]", "--[[", "KEYS[1]",
	"golocker:f:{a}:a", "_golocker:q:{a}:a", "__golocker", "__GOLOCKER:f:{a}:a", " __golocker:f:{a}:a", "a__golocker:f:{a}:a",
	"gl1|m|" + someID + "|1|30000|l|m", strings.Repeat("x", 1024),
}

// reservedNames cannot be used, which an error says before anything is sent.
var reservedNames = []string{
	"", "__golocker:", "__golocker:n", "__golocker:f:{a}:a", "__golocker:q:{a}:a", "__golocker:w:{a}:a", "__golocker:v:{a}:a:" + someID,
	"__golocker:c:" + someID, strings.Repeat("x", 1025), strings.Repeat("x", 1<<20),
}

// All locks of all hostile names are held at the same time, and each is its own key.
func TestHostileNamesAreNamesLikeOthers(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		for _, kind := range lockKinds {
			c := d.client(t, srv.Addr)
			taken := map[string]*locker.Lease{}
			for _, name := range hostileNames {
				lease, err := kind.on(c, name).TryLock(soon(t))
				require.NoError(t, err, "%s %q", kind.name, name)
				taken[name] = lease
				assert.True(t, exists(t, srv, name), "%q is not at its key", name)
				_, err = kind.against(d.client(t, srv.Addr), name).TryLock(soon(t))
				assert.ErrorIs(t, err, locker.ErrLocked, "%q", name)
				assert.NotRegexp(t, `[\x00-\x09\x0b-\x1f]`, err.Error(), "control characters of a name are in an error")
				assert.NotContains(t, err.Error(), "\n", "a name breaks the line of a log")
			}
			assertMortal(t, srv)
			for name := range maps.Keys(taken) {
				require.NoError(t, taken[name].Unlock(soon(t)), "%q", name)
			}
			assert.Empty(t, keys(t, srv), kind.name)
		}
	})
}

func TestReservedNamesAreRefusedBeforeAnythingIsSent(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c := d.client(t, srv.Addr)
		for _, name := range reservedNames {
			for _, kind := range lockKinds {
				m := kind.on(c, name)
				for what, call := range map[string]func() error{
					"Lock":         func() error { _, err := m.Lock(soon(t)); return err },
					"TryLock":      func() error { _, err := m.TryLock(soon(t)); return err },
					"Attach":       func() error { _, err := m.Attach(soon(t), someID); return err },
					"Inspect":      func() error { _, err := c.Inspect(soon(t), name); return err },
					"ForceRelease": func() error { _, err := c.ForceRelease(soon(t), name); return err },
				} {
					err := call()
					assert.ErrorIs(t, err, locker.ErrInvalid, "%s of %.40q", what, name)
					assert.Less(t, len(err.Error()), 1000, "an error that quotes a megabyte")
				}
			}
		}
		// The two halves of a reserved name are no way around.
		halves, err := locker.Open(d.name, "redis://"+srv.Addr, locker.Prefix("__golo"))
		require.NoError(t, err)
		defer halves.Close()
		_, err = halves.Mutex("cker:f:{a}:a").TryLock(soon(t))
		assert.ErrorIs(t, err, locker.ErrInvalid)
		assert.Empty(t, do(t, srv, "KEYS", "*"))
	})
}

// forgedIDs are none that Detach has given out.
var forgedIDs = []string{
	"", "0", someID[1:], someID + "0", strings.ToUpper(someID), strings.Repeat("g", 32), someID[:31] + "|", someID[:31] + "\x00",
	someID[:31] + "\n", "*", strings.Repeat("{", 32), someID[:30] + "\xff\xfe", strings.Repeat("a", 1<<20), " " + someID[1:],
}

// An id that is no id is refused before anything is sent; one that is nobody's takes
// nothing from who holds the lock.
func TestForgedIDsTakeNothing(t *testing.T) {
	eachDriverOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		holder, thief := d.client(t, srv.Addr), d.client(t, srv.Addr)
		for _, kind := range lockKinds {
			lease := mustLock(t, kind.on(holder, kind.name))
			before := do(t, srv, "DUMP", kind.name)
			for _, id := range forgedIDs {
				_, err := kind.on(thief, kind.name).Attach(soon(t), id)
				assert.ErrorIs(t, err, locker.ErrInvalid, "%.40q", id)
				assert.Less(t, len(err.Error()), 1000)
			}
			for _, id := range []string{someID, strings.Repeat("0", 32), strings.Repeat("f", 32)} {
				_, err := kind.on(thief, kind.name).Attach(soon(t), id)
				assert.ErrorIs(t, err, locker.ErrTaken, id)
				_, err = kind.on(thief, kind.name+" that is free").Attach(soon(t), id)
				assert.ErrorIs(t, err, locker.ErrAbsent, id)
			}
			assert.Equal(t, before, do(t, srv, "DUMP", kind.name))
			assert.True(t, lease.Valid())
			require.NoError(t, lease.Unlock(soon(t)))
		}
	})
}
