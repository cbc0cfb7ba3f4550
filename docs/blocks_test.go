package docs

import (
	"go/build"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every Go block is a piece of one Go file of this repository, whatever it is indented
// by, so that it compiles and is tested with that file's package. Where a block leaves
// something out it has a line "// …"; between an import and what follows, something
// may be left out in any case.
func TestGoBlocksAreCodeOfThisRepository(t *testing.T) {
	sources := compiledSources(t)
	shown := 0
	for _, d := range documents(t) {
		for _, block := range d.goCode {
			shown++
			assert.True(t, isShownBy(sources, block), "%s shows what is in no Go file:\n%s", d.path, block)
		}
	}
	assert.Greater(t, shown, 50, "blocks are not found any more")
}

// compiledSources returns the text of every Go file that is compiled here.
func compiledSources(t *testing.T) []string {
	t.Helper()
	var sources []string
	walk(t, ".go", func(path string) {
		dir, name := filepath.Split(filepath.Join(root, path))
		compiled, err := build.Default.MatchFile(dir, name)
		require.NoError(t, err)
		if !compiled {
			return
		}
		source, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		sources = append(sources, unindent(string(source)))
	})
	require.NotEmpty(t, sources)
	return sources
}

// isShownBy tells whether one of the sources has all pieces of a block, in their order.
func isShownBy(sources []string, block string) bool {
	pieces := pieces(block)
	for _, rest := range sources {
		found := true
		for _, piece := range pieces {
			if _, rest, found = strings.Cut(rest, piece); !found {
				break
			}
			rest = "\n" + rest // the line break that ends one piece may begin the next
		}
		if found {
			return true
		}
	}
	return false
}

// pieces splits a block where it leaves something out.
func pieces(block string) []string {
	var all []string
	var piece strings.Builder
	end := func() {
		if strings.TrimSpace(piece.String()) != "" {
			all = append(all, unindent(strings.Trim(piece.String(), "\n")))
		}
		piece.Reset()
	}
	importing := false
	for line := range strings.Lines(block) {
		switch trimmed := strings.TrimSpace(line); {
		case trimmed == "// …":
			end()
			continue
		case strings.HasPrefix(line, "import "):
			importing = true
		}
		piece.WriteString(line)
		if importing && (strings.HasPrefix(line, ")") || strings.HasSuffix(line, "\"\n")) && !strings.HasPrefix(line, "\t") {
			importing = false
			end()
		}
	}
	end()
	return all
}

// unindent removes the white space around each line. The result begins and ends with
// a line break, so that only whole lines match.
func unindent(text string) string {
	var b strings.Builder
	b.WriteByte('\n')
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
		b.WriteByte('\n')
	}
	return b.String()
}

func TestPieces(t *testing.T) {
	source := unindent("package p\nimport \"a\"\nfunc f() {\n\tone()\n\ttwo()\n\tthree()\n}\n")
	for block, shown := range map[string]bool{
		"one()\ntwo()\n":               true,
		"\tone()\n\t\ttwo()\n":         true,
		"one()\nthree()\n":             false,
		"one()\n// …\nthree()\n":       true,
		"three()\n// …\none()\n":       false,
		"import \"a\"\n\none()\n":      true,
		"import \"a\"\none()\nthree()": false,
		"wo()\n":                       false,
	} {
		assert.Equal(t, shown, isShownBy([]string{source}, block), block)
	}
}
