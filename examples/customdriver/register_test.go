package customdriver_test

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
)

func TestOpenByName(t *testing.T) {
	server := miniredis.RunT(t)
	client, err := locker.Open("customdriver", "redis://"+server.Addr())
	require.NoError(t, err)
	defer client.Close()

	err = client.Do(t.Context(), "orders:42", func(context.Context) error {
		assert.NotEmpty(t, server.Keys())
		return nil
	})
	require.NoError(t, err)
}
