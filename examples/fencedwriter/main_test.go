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
	a := account{db: db, id: "a"}
	require.NoError(t, a.open(t.Context()))

	require.NoError(t, writeGuarded(t.Context(), a, 1, 7))
	require.NoError(t, writeGuarded(t.Context(), a, 2, 7), "a holder writes again")
	require.NoError(t, writeGuarded(t.Context(), a, 3, 9))
	require.ErrorIs(t, writeGuarded(t.Context(), a, 4, 8), locker.ErrLost)
	balance, token, err := a.read(t.Context())
	require.NoError(t, err)
	assert.Equal(t, 3, balance)
	assert.EqualValues(t, 9, token, "the token of the last writer")
}
