package observing

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/golocker/golocker/locker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Clients that are opened and never used connect to nothing.
func TestClientsAreOpened(t *testing.T) {
	for _, open := range []func() (*locker.Client, error){Logging, Watching} {
		client, err := open()
		require.NoError(t, err)
		assert.NoError(t, client.Close())
	}
}
