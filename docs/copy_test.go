package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The commands on writing-a-driver.md that make a copy of a driver for a fork of its client, as
// far as they can be tried without the fork: afterwards nothing is called by the old names, and
// nothing is imported that only this repository may.
func TestCopiedDriverHasTheNamesOfTheFork(t *testing.T) {
	page, err := os.ReadFile("writing-a-driver.md")
	require.NoError(t, err)
	removed := regexp.MustCompile(`rm (\w+\.go)`).FindStringSubmatch(string(page))
	rules := regexp.MustCompile(`-e 's([#/])(.+)[#/](.+)[#/]g?'`).FindAllStringSubmatch(string(page), -1)
	require.NotNil(t, removed, "the command that removes a file is not found any more")
	require.Len(t, rules, 4, "the commands that replace names are not found any more")

	files, err := filepath.Glob(filepath.Join(root, "drivers/rueidis/*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, path := range files {
		if filepath.Base(path) == removed[1] {
			continue
		}
		raw, err := os.ReadFile(path)
		require.NoError(t, err)
		source := string(raw)
		for _, rule := range rules {
			source = regexp.MustCompile(rule[2]).ReplaceAllString(source, strings.ReplaceAll(rule[3], `\1`, `${1}`))
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, source, 0)
		require.NoError(t, err)
		for _, i := range file.Imports {
			assert.NotRegexp(t, `rueidis|/internal/`, i.Path.Value, "import of the copy of %s", path)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name != "NewMiniRedis" {
				assert.NotContains(t, s.Sel.Name, "Redis", "in the copy of %s", path)
			}
			return true
		})
	}
}
