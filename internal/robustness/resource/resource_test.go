package resource_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/robustness/resource"
)

func TestASmallerTokenIsRefusedWhoeverBringsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	server, err := resource.Listen(path)
	require.NoError(t, err)
	var clients []*resource.Client
	for range 2 {
		c, err := resource.Dial(path)
		require.NoError(t, err)
		clients = append(clients, c)
	}
	for _, step := range []struct {
		client int
		write  resource.Write
		want   bool
	}{
		{0, resource.Write{Name: "a", Token: 5}, true},
		{1, resource.Write{Name: "a", Token: 4}, false},
		{1, resource.Write{Name: "a", Token: 5}, true},
		{1, resource.Write{Name: "b\x00", Token: 4}, true},
		{1, resource.Write{Name: "a", Token: 6}, true},
		{0, resource.Write{Name: "a", Token: 5}, false},
	} {
		got, err := clients[step.client].Write(step.write)
		require.NoError(t, err)
		assert.Equal(t, step.want, got, "%+v", step.write)
	}
	require.NoError(t, clients[0].Close())
	require.NoError(t, server.Close())
	_, err = clients[1].Write(resource.Write{Name: "a", Token: 9})
	assert.Error(t, err)
}
