// Package shown checks that the Go code of a document is code that compiles and is
// tested.
package shown

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Check requires that every Go block of the document is a piece of the package in
// the working directory, whatever it is indented by.
func Check(t *testing.T, document string) {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var sources []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		sources = append(sources, unindent(string(text)))
	}
	text, err := os.ReadFile(document)
	require.NoError(t, err)
	blocks := goBlocks(string(text))
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		found := false
		for _, source := range sources {
			found = found || strings.Contains(source, unindent(block))
		}
		assert.True(t, found, "%s shows what is nowhere in this package:\n%s", document, block)
	}
}

// goBlocks returns the contents of the fenced blocks marked as Go.
func goBlocks(text string) []string {
	var blocks []string
	inside := false
	for line := range strings.Lines(text) {
		switch fence := strings.TrimSpace(line); {
		case fence == "```go":
			inside = true
			blocks = append(blocks, "")
		case fence == "```":
			inside = false
		case inside:
			blocks[len(blocks)-1] += line
		}
	}
	return blocks
}

// unindent removes the white space around each line. The result begins and ends
// with a line break, so that only whole lines match.
func unindent(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}
