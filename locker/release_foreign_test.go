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

// Somebody waits for a lock, beside which others have then written. The waiter is told of that
// when it asks, and the lock is free for whoever needs nothing of what is broken.
func TestUnlockWithAWaiterBesideForeignKeysFreesTheLock(t *testing.T) {
	sideKeys := map[string]func(k keys) string{
		"queue":   func(k keys) string { return k.queue },
		"entries": func(k keys) string { return k.entries },
		"fence":   func(k keys) string { return k.fence },
	}
	type wrong struct{ what, value string }
	wrongs := []wrong{{"queue", "foreign"}, {"entries", "foreign"}, {"fence", "foreign"}, {"fence", "-1"}, {"fence", lastOfAll}}
	for kind, opts := range exclusive {
		opts = append([]Option{Fenced()}, opts...)
		for _, w := range wrongs {
			side := sideKeys[w.what]
			t.Run(kind+" "+w.what+" "+w.value, func(t *testing.T) {
				administered(t, func(t *testing.T, nodes fakeQuorum, client func(...ClientOption) *Client) {
					lease := must(t, client().Mutex("k", opts...))
					everywhere()
					waiting, refused := client(), make(chan error, 1)
					go func() {
						_, err := waiting.Mutex("k", opts...).Lock(t.Context())
						refused <- err
					}()
					synctest.Wait()
					foreign := func(change func(f *fakeDeployment, key string)) {
						for _, f := range nodes {
							change(f, side(newKeys("k")))
						}
					}
					foreign(func(f *fakeDeployment, key string) {
						f.Del(key)
						require.NoError(t, f.Set(key, w.value))
					})
					assert.NoError(t, lease.Unlock(t.Context()))
					assert.ErrorIs(t, <-refused, ErrForeign)
					synctest.Wait()
					for _, f := range nodes {
						assert.False(t, f.Exists("k"))
					}
					foreign(func(f *fakeDeployment, key string) {
						value, err := f.Get(key)
						assert.NoError(t, err)
						assert.Equal(t, w.value, value)
					})
				})
			})
		}
	}
}

// lastOfAll is a token that no other one can follow.
const lastOfAll = "9007199254740991"
