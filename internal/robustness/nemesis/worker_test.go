package nemesis_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	_ = prove("worker-kill", func(t *testing.T, s *stage, f *incident) {
		f.inject()
		assert.Equal(t, []string{"kill w1"}, s.workers.what())
		f.heal()
	})
	_ = prove("worker-stop", func(t *testing.T, s *stage, f *incident) {
		begun := time.Now()
		f.inject()
		assert.Equal(t, []string{"pause w1"}, s.workers.what())
		f.heal()
		assert.Equal(t, []string{"pause w1", "resume w1"}, s.workers.what())
		assert.Greater(t, time.Since(begun), longestTTL, "no lease outlasts it")
	})
	_ = prove("cpu-starvation", func(t *testing.T, s *stage, f *incident) {
		f.inject()
		assert.GreaterOrEqual(t, greedy(t), 2*runtime.NumCPU())
		f.heal()
		assert.Zero(t, greedy(t))
	})
)

// greedy counts the shells among the children of this process.
func greedy(t *testing.T) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	require.NoError(t, err)
	child := fmt.Appendf(nil, " %d ", os.Getpid())
	n := 0
	for _, file := range files {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …
		name, rest, _ := bytes.Cut(stat, []byte(") "))
		if len(rest) > 1 && bytes.HasPrefix(rest[1:], child) && bytes.HasSuffix(name, []byte("(sh")) {
			n++
		}
	}
	return n
}
