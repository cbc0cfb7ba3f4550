package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/golocker/golocker/examples/internal/demotest"
)

func TestMain(m *testing.M) {
	program.PlayPart()
	os.Exit(m.Run())
}

func TestSaga(t *testing.T) {
	demotest.Run(t, program, "rueidis", `warehouse \d comes too late`, `undone: paid, packed, unpacked, refunded`)
}

func TestRead(t *testing.T) {
	history, growing := read([]string{"1 paid", "2 packed"})
	assert.Equal(t, "paid, packed", history)
	assert.True(t, growing)
	_, growing = read([]string{"2 paid", "1 packed"})
	assert.False(t, growing)
}
