package main

import (
	"database/sql"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/examples/internal/demotest"
	"github.com/golocker/golocker/locker"
)

func TestFencedWriter(t *testing.T) {
	demotest.Run(t, program, "redigo", `the balance is 130`, `is out of date`, `the balance is 150`)
}

func TestGuard(t *testing.T) {
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "db"))
	require.NoError(t, err)
	defer db.Close()
	_, err = db.Exec(schema)
	require.NoError(t, err)
	a := account{db: db, id: "a", guarded: true}
	require.NoError(t, a.open(t.Context()))

	require.NoError(t, a.write(t.Context(), 1, 7))
	require.NoError(t, a.write(t.Context(), 2, 7), "a holder writes again")
	require.NoError(t, a.write(t.Context(), 3, 9))
	require.ErrorIs(t, a.write(t.Context(), 4, 8), locker.ErrLost)
	_, err = a.read(t.Context(), 8)
	require.ErrorIs(t, err, locker.ErrLost)
	balance, err := a.read(t.Context(), 10)
	require.NoError(t, err)
	assert.Equal(t, 3, balance)
	require.ErrorIs(t, a.write(t.Context(), 5, 9), locker.ErrLost, "its successor has read what it writes over")
	balance, token, err := a.look(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, balance)
	assert.EqualValues(t, 10, token, "the largest that it was shown")
}
