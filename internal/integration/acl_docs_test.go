package integration_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
)

// The ACL line of docs/servers.md is enough for everything a client does.
func TestThePermissionsOfTheDocsSuffice(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/servers.md")
	require.NoError(t, err)
	line := regexp.MustCompile(`ACL SETUSER (.*)`).FindSubmatch(page)
	require.NotNil(t, line)
	user := strings.Fields(string(line[1]))
	eachDriver(t, func(t *testing.T, d driverUnderTest) {
		t.Parallel()
		srv := servertest.Single(t, servertest.Config("user", user...))
		dsn := "redis://" + user[0] + ":password@" + srv.Addr
		a, b := d.open(t, dsn), d.open(t, dsn)
		held := mustLock(t, a.Mutex("orders:1", locker.Fenced()))
		got := make(chan *locker.Lease, 1)
		go func() {
			lease, err := b.Mutex("orders:1", locker.Fenced()).Lock(soon(t))
			assert.NoError(t, err)
			got <- lease
		}()
		assertWaiters(t, a, "orders:1", 1)
		require.NoError(t, held.Extend(soon(t), time.Hour))
		begun := time.Now()
		require.NoError(t, held.Unlock(soon(t)))
		next := <-got
		assert.Less(t, time.Since(begun), 500*time.Millisecond, "woken, not polled")
		id, err := next.Detach(soon(t), time.Minute)
		require.NoError(t, err)
		taken, err := a.Mutex("orders:1", locker.Fenced()).Attach(soon(t), id)
		require.NoError(t, err)
		_, err = b.ForceRelease(soon(t), "orders:1")
		require.NoError(t, err)
		assert.ErrorIs(t, taken.Unlock(soon(t)), locker.ErrAbsent)
		refused := do(t, srv, "ACL", "LOG")
		assert.Empty(t, refused)
	})
}
