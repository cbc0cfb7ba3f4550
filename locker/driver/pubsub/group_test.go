package pubsub

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/locker/driver"
)

func TestGroupClosesItsSubscriptions(t *testing.T) {
	var g Group
	dial := func(context.Context) (Conn, error) { return nil, driver.ErrClosed }
	first, err := g.Subscribe(t.Context(), dial)
	require.NoError(t, err)
	second, err := g.Subscribe(t.Context(), dial)
	require.NoError(t, err)
	require.NoError(t, first.Close())
	assert.Len(t, g.open, 1, "a closed one is forgotten")
	require.NoError(t, g.Close())
	require.NoError(t, g.Close())
	_, err = second.Receive(t.Context())
	assert.ErrorIs(t, err, driver.ErrClosed)
	_, err = g.Subscribe(t.Context(), dial)
	assert.ErrorIs(t, err, driver.ErrClosed)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = new(Group).Subscribe(ctx, dial)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, driver.OutcomeNotSent, driver.OutcomeOf(err))
}

func ExampleGroup() {
	// A field of the driver's Conn; Conn.Subscribe calls its Subscribe, and
	// Conn.Close its Close.
	var g Group
	defer g.Close()
}
