package integration_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/drivers/goredis"
	"github.com/golocker/golocker/drivers/redigo"
	"github.com/golocker/golocker/drivers/rueidis"
	"github.com/golocker/golocker/internal/servertest"
	"github.com/golocker/golocker/locker"
	"github.com/golocker/golocker/locker/driver"
)

// movings are the two ways in which docs/operations.md has a server move, from where the new one
// follows the old one until clients are led to it.
var movings = map[string]func(t *testing.T, from, to *servertest.Server){
	"step by step": func(t *testing.T, from, to *servertest.Server) {
		do(t, from, "CLIENT", "PAUSE", "60000", "WRITE") // the test is not about how long that is
		offset := do(t, from, "ROLE").([]any)[1]
		eventually(t, "the new one has caught up", func() bool { return do(t, to, "ROLE").([]any)[4] == offset })
		do(t, to, "REPLICAOF", "NO", "ONE")
		do(t, from, "REPLICAOF", "127.0.0.1", to.Port())
	},
	"FAILOVER": func(t *testing.T, from, to *servertest.Server) {
		do(t, from, "FAILOVER", "TO", "127.0.0.1", to.Port())
		eventually(t, "the new one is the master", func() bool { return to.InfoSays("replication", "role:master") == nil })
	},
}

// movedTTL is that of leases that a FAILOVER must not outlast: the servers look once a second
// whether the new one has caught up, and no lease is renewed in the meantime.
const movedTTL = 2 * renewedTTL

// A server moves while locks are held. Who is led to the new one keeps its leases. Who is not
// neither renews them at the old one nor takes locks there, which others may have on the new one.
func TestAServerThatMovesAsTheDocsSayHasNoSecondHolder(t *testing.T) {
	t.Parallel()
	servertest.SkipBefore(t, 6, 2, "CLIENT PAUSE … WRITE and FAILOVER")
	drivers := map[string]driver.Driver{"goredis": goredis.Driver{}, "redigo": redigo.Driver{}, "rueidis": rueidis.Driver{}}
	for way, move := range movings {
		for name, d := range drivers {
			t.Run(way+"/"+name, func(t *testing.T) {
				t.Parallel()
				m := newTwoMasters(t)
				led := newClient(t, m.connector(t, d), locker.TTL(movedTTL))
				behind, err := locker.Open(name, "redis://"+m.former.Addr, locker.TTL(movedTTL))
				require.NoError(t, err)
				t.Cleanup(func() { _ = behind.Close() })
				do(t, m.master, "REPLICAOF", "127.0.0.1", m.former.Port())
				along, stays := mustLock(t, led.Mutex("along")), mustLock(t, behind.Mutex("stays"))
				eventually(t, "the new one follows", func() bool { return do(t, m.former, "WAIT", "1", "100") == int64(1) })

				move(t, m.former, m.master)
				m.leads.Store(&m.master.Addr)
				do(t, m.former, "CLIENT", "UNPAUSE")

				assert.True(t, survivesRenewals(along, 2), "the lease did not go along: %v", along.Err())
				taken := goLock(soon(t), led.Mutex("stays"))
				eventually(t, "the old one refuses writes", func() bool {
					_, err := behind.Mutex("free", locker.AttemptTimeout(time.Second)).TryLock(soon(t))
					require.Error(t, err, "a lock was taken at the old server")
					return errors.Is(err, locker.ErrUnavailable)
				})
				result := <-taken
				require.NoError(t, result.err)
				assert.False(t, stays.Valid(), "two holders")
				assert.True(t, exists(t, m.master, "stays"))
			})
		}
	}
}
