package locker

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestContextsCarryTheirLeases(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		_, ok := FromContext(t.Context())
		assert.False(t, ok)
		a, err := c.Mutex("a").Lock(t.Context())
		require.NoError(t, err)
		got, ok := FromContext(a.Context())
		assert.True(t, ok)
		assert.Same(t, a, got)

		type key struct{}
		ctx := context.WithValue(a.Context(), key{}, "v")
		require.NoError(t, c.Do(ctx, "b", func(ctx context.Context) error {
			b, _ := FromContext(ctx)
			return c.Do(ctx, "c", func(ctx context.Context) error {
				assert.Equal(t, "v", ctx.Value(key{}))
				var names []string
				for l := range leases(ctx) {
					names = append(names, l.Name())
				}
				assert.Equal(t, []string{"c", "b", "a"}, names)
				for l := range leases(ctx) {
					assert.Equal(t, "c", l.Name())
					break
				}
				assert.Equal(t, []*Lease{b}, slices.Collect(leases(b.Context())), "the lease's own carries no other")
				return nil
			})
		}))
	})
}

// Where the loss shows only when the lock is given up, others may have been in beside work.
func TestDoReportsALossThatShowsAtTheEnd(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		c := f.client(t)
		for want, lose := range map[error]func(){
			ErrAbsent: func() { f.Del("k") },
			ErrTaken:  func() { f.Set("k", "gl1|m|"+newID()+"|0|30000|other|") },
		} {
			err := c.Do(t.Context(), "k", func(context.Context) error { lose(); return nil })
			assert.ErrorIs(t, err, ErrLost)
			assert.ErrorIs(t, err, want)
			assert.EqualError(t, err, "locker: lock \"k\" lost: "+bare(want))
			f.Del("k")
		}
	})
}
