// Package demotest runs the examples in tests.
package demotest

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/examples/internal/demo"
	"github.com/golocker/golocker/internal/servertest"
)

// Run plays the program on the embedded server, and on a real one through the given
// driver, and requires that its promises are kept and its output matches the patterns.
func Run(t *testing.T, p demo.Program, driver string, patterns ...string) {
	play := func(t *testing.T, args ...string) {
		t.Parallel()
		if p.TTL < 5*time.Second { // the end of a lease is waited for
			args = append(args, "-ttl", "1s")
		}
		var out, errs bytes.Buffer
		status := p.Run(args, &out, &errs)
		require.Zero(t, status, "%s%s", out.String(), errs.String())
		for _, pattern := range patterns {
			assert.Regexp(t, pattern, out.String())
		}
		assert.Contains(t, out.String(), "\nkept:  ")
	}
	t.Run("Embedded", func(t *testing.T) { play(t) })
	t.Run("Server", func(t *testing.T) {
		play(t, "-driver", driver, "-url", "redis://"+servertest.Single(t).Addr)
	})
}
