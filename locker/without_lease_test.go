package locker

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// It was told ErrDeadlock, though nobody waited for it; and with Reentrant, as that error advised,
// it was inside together with its parent.
func TestWorkInTheBackgroundWaitsForItsTurn(t *testing.T) {
	for name, opts := range map[string][]Option{
		"mutex":     nil,
		"fenced":    {Fenced()},
		"no line":   {NoRenewal()},
		"unfair":    {Unfair()},
		"reentrant": {Reentrant()},
		"writing":   {ForWriting()},
	} {
		for parent, owned := range map[string]func(context.Context) context.Context{
			"":                 func(ctx context.Context) context.Context { return ctx },
			" of an owner":     func(ctx context.Context) context.Context { return WithOwner(ctx, NewOwner()) },
			" of a named one":  func(ctx context.Context) context.Context { return WithOwner(ctx, NamedOwner("job-17")) },
			" under the lease": func(ctx context.Context) context.Context { return ctx },
		} {
			t.Run(name+parent, func(t *testing.T) {
				bubble(t, func(t *testing.T, f *fakeDeployment) {
					m := f.client(t).Mutex("k", opts...)
					later := make(chan error, 1)
					inside := 0
					section := func(context.Context) error {
						inside++
						assert.Equal(t, 1, inside)
						time.Sleep(time.Second) // whoever can come in does
						assert.Equal(t, 1, inside)
						inside--
						return nil
					}
					require.NoError(t, m.Do(owned(t.Context()), func(ctx context.Context) error {
						if lease, _ := FromContext(ctx); parent == " under the lease" {
							ctx = lease.Context()
						}
						go func() {
							later <- m.Do(WithoutLease(context.WithoutCancel(ctx)), section)
						}()
						return section(ctx)
					}))
					assert.NoError(t, <-later)
					assert.False(t, f.Exists("k"))
				})
			})
		}
	}
}

func TestWorkInTheBackgroundThatDoesNotWaitIsToldThatItIsLocked(t *testing.T) {
	for _, opts := range [][]Option{nil, {Reentrant()}, {ForWriting()}} {
		bubble(t, func(t *testing.T, f *fakeDeployment) {
			m := f.client(t).Mutex("k", opts...)
			require.NoError(t, m.Do(WithOwner(t.Context(), NamedOwner("job-17")), func(ctx context.Context) error {
				_, err := m.TryLock(WithoutLease(ctx))
				assert.ErrorIs(t, err, ErrLocked)
				return nil
			}))
		})
	}
}

func TestWithoutLeaseAllElseStays(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		type key struct{}
		c := f.client(t)
		err := c.Do(context.WithValue(t.Context(), key{}, "trace"), "outer", func(ctx context.Context) error {
			return c.Do(ctx, "inner", func(ctx context.Context) error {
				ctx, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				free := WithoutLease(ctx)
				_, ok := FromContext(free)
				assert.False(t, ok)
				assert.Equal(t, "trace", free.Value(key{}))
				want, _ := ctx.Deadline()
				deadline, _ := free.Deadline()
				assert.Equal(t, want, deadline)

				again := c.Mutex("again", Reentrant())
				require.NoError(t, again.Do(free, func(ctx context.Context) error {
					lease, _ := FromContext(ctx)
					assert.Equal(t, "again", lease.Name())
					return again.Do(ctx, nothing) // what is taken under it is nested as ever
				}))
				o := NewOwner()
				require.NoError(t, again.Do(WithOwner(free, o), func(ctx context.Context) error {
					lease, _ := FromContext(ctx)
					assert.Equal(t, o, lease.Owner())
					return nil
				}))
				cancel()
				assert.ErrorIs(t, free.Err(), context.Canceled)
				return nil
			})
		})
		require.NoError(t, err)
	})
}

// The option comes before what any context says.
func TestWithoutLeaseALockThatNamesItsOwnerIsReentered(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		m := f.client(t).Mutex("k", Reentrant(), As(NamedOwner("job-17")))
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context) error {
			return m.Do(WithoutLease(ctx), nothing)
		}))
	})
}

// What it advises is to fit both who is waited for and who is not.
func TestADeadlockTellsWhatWorkInTheBackgroundNeeds(t *testing.T) {
	text := (&DeadlockError{Name: "k", Nested: true}).Error()
	assert.Contains(t, text, "Reentrant where calls are nested")
	assert.Contains(t, text, "in the background that the holder does not wait for is to have a context from WithoutLease")
}
