package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// root is the repository's folder.
const root = ".."

// A document is what the tests want to know of one Markdown file.
type document struct {
	path    string   // from the root, with slashes
	goCode  []string // the blocks marked as Go
	links   []string // the targets of links and pictures
	anchors []string // of the headings, as GitHub makes them
	spans   []string // code within the text
}

// documents returns all Markdown files of the repository.
func documents(t *testing.T) []document {
	t.Helper()
	var all []document
	walk(t, ".md", func(path string) { all = append(all, parse(t, path)) })
	require.NotEmpty(t, all)
	return all
}

// walk calls visit with every file of that extension, by its path from the root. It
// passes over what is not the repository's own.
func walk(t *testing.T, extension string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		if err != nil {
			return err
		}
		path = filepath.ToSlash(path)
		if entry.IsDir() {
			if path == ".git" || path == "bench/results" || entry.Name() == "testdata" || entry.Name() == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) == extension {
			visit(path)
		}
		return nil
	})
	require.NoError(t, err)
}

func parse(t *testing.T, path string) document {
	t.Helper()
	source, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return parseText(t, path, source)
}

func parseText(t *testing.T, path string, source []byte) document {
	t.Helper()
	d := document{path: path}
	tree := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser().Parse(text.NewReader(source))
	err := ast.Walk(tree, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.FencedCodeBlock:
			if string(n.Language(source)) == "go" {
				d.goCode = append(d.goCode, string(n.Lines().Value(source)))
			}
		case *ast.Link:
			d.links = append(d.links, string(n.Destination))
		case *ast.Image:
			d.links = append(d.links, string(n.Destination))
		case *ast.Heading:
			d.addAnchor(plain(n, source))
		case *ast.CodeSpan:
			d.spans = append(d.spans, plain(n, source))
		}
		return ast.WalkContinue, nil
	})
	require.NoError(t, err)
	return d
}

// plain returns the text of a node without its markup.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	for child := n.FirstChild(); child != nil; child = child.NextSibling() {
		if leaf, ok := child.(*ast.Text); ok {
			b.Write(leaf.Value(source))
		} else {
			b.WriteString(plain(child, source))
		}
	}
	return b.String()
}

// addAnchor derives a heading's anchor as GitHub does: lower case, without
// punctuation, dashes for spaces, and a number where it repeats itself.
func (d *document) addAnchor(heading string) {
	anchor := strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		default:
			return -1
		}
	}, heading)
	unique := anchor
	for n := 1; slices.Contains(d.anchors, unique); n++ {
		unique = anchor + "-" + strconv.Itoa(n)
	}
	d.anchors = append(d.anchors, unique)
}
