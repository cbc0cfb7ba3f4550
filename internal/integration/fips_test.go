package integration_test

import (
	"crypto/fips140"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

// A program may have bound itself to the algorithms of FIPS 140-3, to which the SHA-1 does not belong
// by which servers name their scripts.
func TestLocksWhereOnlyFIPS140IsAllowed(t *testing.T) {
	if !fips140.Enforced() {
		t.Parallel()
		inAnotherProcess(t, "GODEBUG=fips140=only")
		return
	}
	eachWayOnServer(t, func(t *testing.T, d driverUnderTest, srv *servertest.Server) {
		c, other := d.client(t, srv.Addr), d.client(t, srv.Addr)
		for _, kind := range lockKinds {
			lease := mustTryLock(t, kind.on(c, kind.name))
			waiting := goLockWaiting(t, soon(t), kind.against(other, kind.name), c)
			require.Len(t, status(t, other, kind.name).Holders, 1)
			require.NoError(t, lease.Unlock(soon(t)))
			assert.NoError(t, had(t, waiting).lease.Unlock(soon(t)))
		}
	})
}
