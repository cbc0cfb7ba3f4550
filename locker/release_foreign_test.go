package locker

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Something that is no queue stands where the waiters of a lock should be. Nobody can wait
// there; that is no reason to keep the lock from all for the rest of its TTL.
func TestUnlockBesideAForeignQueueFreesTheLock(t *testing.T) {
	for kind, opts := range map[string][]Option{
		"mutex": nil, "fenced": {Fenced()}, "reentrant": {Reentrant()}, "writer": {ForWriting()}, "reader": {ForReading()},
	} {
		t.Run(kind, func(t *testing.T) {
			administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
				k := newKeys("k")
				leases := []*Lease{must(t, client().Mutex("k", opts...))}
				if kind == "reader" {
					leases = append(leases, must(t, client().Mutex("k", opts...)))
				}
				everywhere()
				for _, f := range nodes {
					require.NoError(t, f.Set(k.queue, "foreign"))
				}
				for _, lease := range leases {
					assert.NoError(t, lease.Unlock(t.Context()))
				}
				synctest.Wait()
				for _, f := range nodes {
					assert.False(t, f.Exists("k"))
					value, err := f.Get(k.queue)
					assert.NoError(t, err)
					assert.Equal(t, "foreign", value)
				}
			})
		})
	}
}
