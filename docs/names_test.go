package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a document names as proof: `folder.TestName`, or `nemesis: name` for a fault of
// the robustness suite, or `conformance: Group/Case`.
var (
	testName  = regexp.MustCompile(`^([a-z][a-z0-9/]*)\.((?:Test|Example|Benchmark|Fuzz)\w*)$`)
	otherName = regexp.MustCompile(`^(nemesis|conformance): (.+)$`)
	// whereNamed says where the names of faults and cases stand as strings.
	whereNamed = map[string]string{"nemesis": "internal/robustness/nemesis", "conformance": "conformance"}
)

func TestNamedTestsExist(t *testing.T) {
	known, named := names{}, 0
	for _, d := range documents(t) {
		for _, span := range d.spans {
			if !isProof(span) {
				continue
			}
			named++
			assert.True(t, exists(t, known, span), "%s: there is no %s", d.path, span)
		}
	}
	assert.Greater(t, named, 30, "names of tests are not found any more")
}

// What a command in a document or the Makefile tells the robustness suite to choose:
// after which flag, and where the names for it stand as strings.
var (
	chosen      = regexp.MustCompile(`-(faults|kinds|drivers)=([\w+,-]+)`)
	whereChosen = map[string]string{
		"faults": "internal/robustness/nemesis", "kinds": "internal/robustness/rig", "drivers": "internal/robustness/soak",
	}
)

// A command that is copied from a document finds the faults that it asks for.
func TestChosenFaultsExist(t *testing.T) {
	known, seen := names{}, map[string]bool{}
	check := func(path string) {
		source, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err)
		for _, m := range chosen.FindAllStringSubmatch(string(source), -1) {
			for name := range strings.SplitSeq(m[2], ",") {
				assert.True(t, known.of(t, whereChosen[m[1]])[strconv.Quote(name)], "%s: %s chooses %s, which is nowhere in %s", path, m[0], name, whereChosen[m[1]])
			}
			seen[m[1]] = true
		}
	}
	check("Makefile")
	walk(t, ".md", check)
	assert.Len(t, seen, len(whereChosen), "flags are not found any more")
}

// Every line of the tables of guarantees, and of the page on history, names a test.
func TestEveryGuaranteeNamesATest(t *testing.T) {
	for _, page := range []string{"guarantees.md", "history.md"} {
		lines := 0
		for _, row := range rows(t, page) {
			lines++
			assert.True(t, slices.ContainsFunc(spansOf(row), isProof), "%s: no test is named by\n%s", page, row)
		}
		assert.NotZero(t, lines, page)
	}
}

// rows returns the lines of all tables of a page without their headings.
func rows(t *testing.T, page string) []string {
	t.Helper()
	source, err := os.ReadFile(page)
	require.NoError(t, err)
	var all []string
	inside := false
	for line := range strings.Lines(string(source)) {
		switch {
		case !strings.HasPrefix(line, "|"):
			inside = false
		case strings.HasPrefix(line, "|--"):
			inside = true
		case inside:
			all = append(all, line)
		}
	}
	return all
}

func spansOf(line string) []string {
	var spans []string
	for i, part := range strings.Split(line, "`") {
		if i%2 == 1 {
			spans = append(spans, part)
		}
	}
	return spans
}

func isProof(span string) bool { return testName.MatchString(span) || otherName.MatchString(span) }

// names are what the Go files of a folder have: test functions and strings.
type names map[string]map[string]bool

// exists tells whether what span names exists.
func exists(t *testing.T, known names, span string) bool {
	t.Helper()
	if m := testName.FindStringSubmatch(span); m != nil {
		return known.of(t, m[1])[m[2]]
	}
	if m := otherName.FindStringSubmatch(span); m != nil {
		return known.of(t, whereNamed[m[1]])[strconv.Quote(m[2])]
	}
	return false
}

func (n names) of(t *testing.T, folder string) map[string]bool {
	t.Helper()
	if found, ok := n[folder]; ok {
		return found
	}
	found := map[string]bool{}
	n[folder] = found
	files, err := filepath.Glob(filepath.Join(root, folder, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, "no Go files in %s", folder)
	for _, file := range files {
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				found[n.Name.Name] = n.Recv == nil
			case *ast.BasicLit:
				found[n.Value] = true
			}
			return true
		})
	}
	return found
}
