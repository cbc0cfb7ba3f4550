package customdriver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const document = "../../docs/writing-a-driver.md"

// Every Go block of the document is a piece of this package, so that what
// authors copy compiles and passes the suite.
func TestDocumentShowsThisCode(t *testing.T) {
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
