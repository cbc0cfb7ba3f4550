package docs

import (
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The page on architecture tells of each file of the core what it is about, and of none that is gone.
func TestEveryFileOfTheCoreIsOnThePageOnArchitecture(t *testing.T) {
	sources, err := filepath.Glob(filepath.Join(root, "locker", "*.go"))
	require.NoError(t, err)
	files := map[string]bool{} // whether it is named
	for _, source := range sources {
		if name := filepath.Base(source); !strings.HasSuffix(name, "_test.go") {
			files[name] = false
		}
	}
	for _, row := range rows(t, "architecture.md") {
		for _, span := range spansOf(row) {
			if !strings.HasSuffix(span, ".go") {
				continue
			}
			found := false
			for name := range files {
				if is, err := path.Match(span, name); is {
					found, files[name] = true, true
				} else {
					require.NoError(t, err, span)
				}
			}
			assert.True(t, found, "there is no %s in locker", span)
		}
	}
	for name, named := range files {
		assert.True(t, named, "docs/architecture.md does not name %s", name)
	}
}
