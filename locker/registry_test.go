package locker

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestRegistry(t *testing.T) {
	bubble(t, func(t *testing.T, f *fakeDeployment) {
		_, err := Open("nosuch", "redis://:hunter2@h/")
		assert.ErrorContains(t, err, `unknown driver "nosuch" (forgotten import?`)
		assert.NotContains(t, err.Error(), "hunter2")

		Register("fake", f.Driver())
		t.Cleanup(func() { delete(registry.drivers, "fake") })
		assert.Contains(t, Drivers(), "fake")
		_, err = Open("nosuch", "")
		assert.ErrorContains(t, err, "fake", "the error lists what there is")
		assert.Panics(t, func() { Register("fake", f.Driver()) })
		assert.Panics(t, func() { Register("nil", nil) })
		assert.Panics(t, func() { Register("", f.Driver()) })

		_, err = Open("fake", "redis://:hunter2@h:port/")
		assert.ErrorIs(t, err, ErrInvalid)
		require.Error(t, err)
		assert.NotContains(t, err.Error(), "hunter2")

		c, err := Open("fake", "redis://localhost")
		require.NoError(t, err)
		defer c.Close()
		lease, err := c.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		assert.NoError(t, lease.Unlock(t.Context()))
	})
}

// An unable driver opens nothing.
type unable struct{}

func (unable) OpenConnector(driver.Config) (driver.Connector, error) {
	return nil, driver.ErrUnsupported
}

func TestOpenOfWhatTheDriverCannotSaysSo(t *testing.T) {
	Register("unable", unable{})
	t.Cleanup(func() { delete(registry.drivers, "unable") })
	_, err := Open("unable", "redis://localhost")
	assert.ErrorIs(t, err, ErrInvalid)
	assert.ErrorIs(t, err, driver.ErrUnsupported)
}

// Two arguments of one type are easily swapped, and errors are logged.
func TestOpenWithItsArgumentsSwappedShowsNoPassword(t *testing.T) {
	for _, dsn := range []string{"redis://user:hunter2@localhost:6379/0", "unix://:hunter2@/run/redis.sock", "user:hunter2@localhost", "hunter2@localhost"} {
		_, err := Open(dsn, "goredis")
		require.ErrorIs(t, err, ErrInvalid)
		assert.NotContains(t, err.Error(), "hunter2")
		assert.ErrorContains(t, err, "the name comes first, and then the DSN")
	}
}

var _ driver.Driver = fakeDriver{}
