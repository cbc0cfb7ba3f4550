package integration_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// A server in cluster mode refuses a script whose keys do not share a slot, also
// when it has all slots: so it judges the side keys of any name.
func FuzzKeysOfALockShareASlotByTheServersWord(f *testing.F) {
	for _, name := range difficultNames {
		f.Add(name)
	}
	cluster := servertest.Cluster(f, 1)
	node := cluster.Nodes[0]
	c, err := locker.Open("goredis", "redis://"+node.Addr+"?mode=cluster", locker.Fenced())
	require.NoError(f, err)
	f.Cleanup(func() { _ = c.Close() })
	f.Fuzz(func(t *testing.T, name string) {
		if name == "" || len(name) > 1024 || strings.HasPrefix(name, "__golocker:") {
			t.Skip()
		}
		slot, err := node.Do("CLUSTER", "KEYSLOT", name)
		require.NoError(t, err)
		require.Equal(t, slot, int64(driver.Slot(name)))
		lease, err := c.Mutex(name).TryLock(soon(t))
		require.NoError(t, err)
		require.NoError(t, lease.Extend(soon(t), locker.DefaultTTL))
		_, err = c.Inspect(soon(t), name)
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(soon(t)))
	})
}
