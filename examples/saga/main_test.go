package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/examples/internal/demo"
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

// A sweeper may crash, too, or lose the lock, and the next one goes on where it was.
func TestTheSweeperGoesOnWithWhatAnotherHasBegun(t *testing.T) {
	server := miniredis.RunT(t)
	for done, undone := range map[string]string{
		"":                       "",
		"paid":                   "paid, refunded",
		"paid, packed":           "paid, packed, unpacked, refunded",
		"paid, packed, unpacked": "paid, packed, unpacked, refunded",
		"paid, refunded":         "paid, refunded",
		"paid, packed, shipped":  "paid, packed, shipped",
	} {
		steps := demo.Journal(filepath.Join(t.TempDir(), "steps"))
		require.NoError(t, os.WriteFile(string(steps), nil, 0o600))
		for step := range strings.SplitSeq(done, ", ") {
			if step != "" {
				require.NoError(t, steps.Write("1 %s", step))
			}
		}
		p := &demo.Part{
			Server: demo.Server{Driver: "goredis", URL: "redis://" + server.Addr(), TTL: time.Second},
			Name:   "sweeper", Args: []string{string(steps), ""},
		}
		require.NoError(t, sweeper(t.Context(), p))
		lines, err := steps.Lines()
		require.NoError(t, err)
		history, _ := read(lines)
		assert.Equal(t, undone, history, "of %q", done)
	}
}
