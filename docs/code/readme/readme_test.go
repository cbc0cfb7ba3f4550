package readme

import (
	"context"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker"
)

type store map[string]locker.Token

func (s store) Write(_ context.Context, data string, token locker.Token) error {
	s[data] = token
	return nil
}

func TestReadme(t *testing.T) {
	server := miniredis.RunT(t)
	var done []string
	does := func(what string) Work {
		return func(ctx context.Context) error { done = append(done, what); return ctx.Err() }
	}
	require.NoError(t, ThirtySeconds(t.Context(), server.Addr(), does("work")))

	client, err := ByName("redis://" + server.Addr())
	require.NoError(t, err)
	defer client.Close()
	s := store{}
	require.NoError(t, InHand(t.Context(), client, s, "data"))
	assert.Positive(t, s["data"])
	other, err := client.Mutex("orders:42", locker.Fenced()).TryLock(t.Context())
	require.NoError(t, err, "it was given up")
	require.NoError(t, InHand(t.Context(), client, s, "while others are at it"))
	assert.Len(t, s, 1)
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, ReadersAndAWriter(t.Context(), client, does("list"), does("rebuild")))
	assert.Equal(t, []string{"work", "list", "rebuild"}, done)
}
