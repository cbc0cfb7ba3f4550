package locker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A record that somebody took the TTL from is given back one by who renews. It lasts for as long
// as anybody who holds the lock believes in that, and not for as long as the renewal asks for.
func TestRecordThatLostItsTTLOutlastsAllWhoHoldTheLock(t *testing.T) {
	take := func(t *testing.T, f *fakeDeployment, opts ...Option) *Lease {
		t.Helper()
		lease, err := f.client(t).Mutex("k", append(opts, NoRenewal())...).TryLock(t.Context())
		require.NoError(t, err)
		return lease
	}
	extend := func(t *testing.T, lease *Lease, ttl time.Duration) {
		t.Helper()
		require.NoError(t, lease.Extend(t.Context(), ttl))
	}
	for name, test := range map[string]func(t *testing.T, f *fakeDeployment) (longest *Lease){
		"a mutex that was extended": func(t *testing.T, f *fakeDeployment) *Lease {
			lease := take(t, f)
			extend(t, lease, 10*time.Minute)
			f.do(t, "PERSIST", "k")
			extend(t, lease, time.Minute)
			return lease
		},
		"another reader renews": func(t *testing.T, f *fakeDeployment) *Lease {
			long, short := take(t, f, ForReading(), TTL(10*time.Minute)), take(t, f, ForReading(), TTL(time.Minute))
			f.do(t, "PERSIST", "k")
			extend(t, short, 2*time.Minute)
			return long
		},
		"another reader renews for as long as it has": func(t *testing.T, f *fakeDeployment) *Lease {
			long, short := take(t, f, ForReading(), TTL(10*time.Minute)), take(t, f, ForReading(), TTL(time.Minute))
			f.do(t, "PERSIST", "k")
			extend(t, short, 30*time.Second)
			return long
		},
		"another reader comes": func(t *testing.T, f *fakeDeployment) *Lease {
			long := take(t, f, ForReading(), TTL(10*time.Minute))
			f.do(t, "PERSIST", "k")
			take(t, f, ForReading(), TTL(time.Minute))
			return long
		},
		"the owner re-enters elsewhere": func(t *testing.T, f *fakeDeployment) *Lease {
			as := As(NamedOwner("me"))
			long := take(t, f, Reentrant(), as, TTL(10*time.Minute))
			f.do(t, "PERSIST", "k")
			take(t, f, Reentrant(), as, TTL(time.Minute))
			return long
		},
	} {
		t.Run(name, func(t *testing.T) {
			onServers(t, func(t *testing.T, f *fakeDeployment) {
				lease := test(t, f)
				assert.Greater(t, f.pttl(t, "k"), time.Until(lease.Deadline()), "the holder believes in the lease for longer")
			})
		})
	}
}

// Nor is it taken for a foreign one meanwhile by who looks at it, who would be told to delete it.
func TestInspectShowsTheHolderOfARecordThatLostItsTTL(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t, Label("me"))
		must(t, c.Mutex("k"))
		f.do(t, "PERSIST", "k")
		status, err := c.Inspect(t.Context(), "k")
		require.NoError(t, err)
		require.Len(t, status.Holders, 1)
		assert.Equal(t, "me", status.Holders[0].Label)
		assert.Zero(t, status.Holders[0].Remaining)
	})
}
