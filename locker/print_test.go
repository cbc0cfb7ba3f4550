package locker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whoever logs one of ours while it is used has no data race.
func TestPrintingTakesNoPart(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		m := c.Mutex("a\nlock")
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		var all sync.WaitGroup
		all.Go(func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, _ = m.Lock(ctx)
			_ = lease.Unlock(t.Context())
		})
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%x"} {
			assert.Equal(t, "locker.Client", fmt.Sprintf(verb, c))
			assert.Equal(t, `locker.Mutex("a\nlock")`, fmt.Sprintf(verb, m))
			assert.Contains(t, fmt.Sprintf(verb, lease), `locker.Lease("a\nlock"`)
		}
		all.Wait()
		assert.Equal(t, fmt.Sprintf(`locker.Lease("a\nlock", %v)`, lease.Err()), fmt.Sprint(lease))
	})
}

// By the id a lease could be given up, and by the value of another library its lock, too.
func TestLockedErrorShowsNoID(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, err := f.client(t).Mutex("ours").TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, f.Set("others", "their secret"))
		f.SetTTL("others", time.Minute)
		for _, name := range []string{"ours", "others"} {
			value, err := f.Get(name)
			require.NoError(t, err)
			_, err = f.client(t).Mutex(name).TryLock(t.Context())
			locked, ok := errors.AsType[*LockedError](err)
			require.True(t, ok)
			for _, verb := range []string{"%v", "%+v", "%#v"} {
				assert.NotContains(t, fmt.Sprintf(verb, *locked), recordID(value))
			}
		}
	})
}
