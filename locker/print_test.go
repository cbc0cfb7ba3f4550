package locker

import (
	"context"
	"fmt"
	"sync"
	"testing"

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
