package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// repository writes files and goes to their folder.
func repository(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	t.Chdir(root)
	return root
}

// good is a repository that there is nothing to say about.
func good() map[string]string {
	return map[string]string{
		"go.work":  "go 1.26.0\n\nuse (\n\t./a\n\t./bench\n)\n",
		"a/go.mod": "module example.org/a\n\ngo 1.26.0\n",
		"a/a.go": `// Package a is an example.
package a

// Limit is the most.
const Limit = 7

// A Point is a place.
type Point struct {
	X, Y int // in metres

	// Name and Note are for people.
	Name string
	Note string
	secret int
}

// Move moves.
func (p *Point) Move(by int) error { p.secret = by; return nil }

// A Mover moves.
type Mover interface {
	// Move moves by so much.
	Move(by int) error
}
`,
		"a/a_test.go":          "package a_test\n\nimport \"example.org/a\"\n\nfunc ExamplePoint() { var _ a.Mover = &a.Point{} }\n",
		"a/cmd/main.go":        "package main\n\nfunc Undocumented() {}\n\nfunc main() {}\n",
		"a/internal/i/i.go":    "package i\n\nfunc Undocumented() {}\n",
		"bench/go.mod":         "module example.org/bench\n\ngo 1.26.0\n",
		"bench/harness/run.go": "package harness\n\nfunc Undocumented() {}\n",
	}
}

func call(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = run(args, &o, &e)
	return status, o.String(), e.String()
}

func TestGolden(t *testing.T) {
	repository(t, good())
	status, _, errs := call(t)
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "+ pkg example.org/a, const Limit")
	assert.Contains(t, errs, "make api")

	status, _, errs = call(t, "-write")
	require.Zero(t, status, errs)
	text, err := os.ReadFile("api/a.txt")
	require.NoError(t, err)
	assert.Equal(t, `pkg example.org/a, const Limit untyped int = 7
pkg example.org/a, method (*Point) Move(by int) error
pkg example.org/a, type Mover interface { Move }
pkg example.org/a, type Mover interface, Move(by int) error
pkg example.org/a, type Point struct
pkg example.org/a, type Point struct, Name string
pkg example.org/a, type Point struct, Note string
pkg example.org/a, type Point struct, X int
pkg example.org/a, type Point struct, Y int
`, string(text))
	status, _, errs = call(t)
	assert.Zero(t, status, errs)

	require.NoError(t, os.WriteFile("api/gone.txt", nil, 0o666))
	status, _, errs = call(t)
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "gone.txt is of no module")
}

func TestDocs(t *testing.T) {
	files := good()
	files["a/b.go"] = `package a

const Other = 1

func Do() {}

func (p Point) Stay() {}

type Plain struct {
	A int // documented

	B int
}

type Doer interface{ Do() }
`
	files["a/sub/sub.go"] = "// Sub is no good beginning.\npackage sub\n\n// Do does.\nfunc Do() {}\n"
	repository(t, files)
	call(t, "-write")
	status, _, errs := call(t)
	assert.Equal(t, 1, status)
	for _, fault := range []string{
		"Other has no documentation", "function Do has no", "method Point.Stay has no", "type Plain has no documentation",
		"Plain.B has no", "type Doer has no", "Doer.Do has no", "type Plain is in no example", "type Doer is in no example",
		"must begin with \"Package sub\"", "package sub has no example",
	} {
		assert.Contains(t, errs, fault)
	}
	assert.NotContains(t, errs, "Undocumented")
	assert.NotContains(t, errs, "Plain.A")
}

// An identifier that is called like a type shows nothing of it.
func TestOnlyWhatIsUsedByItsTypeIsShown(t *testing.T) {
	files := good()
	files["a/b.go"] = `package a

// A Client is one by whose name something else goes.
type Client struct{}

// Snapshot is that as well.
type Snapshot struct{}

// A Kind is a field elsewhere.
type Kind int

// Lost is in a test only.
type Lost struct{}

// Alone is in a function that no example calls.
type Alone struct{}

// Shown is what [Make] makes.
type Shown struct{}

// Make makes one of several.
func Make() ([]*Shown, error) { return nil, nil }

// A Helper is what an example's own type is.
type Helper interface{ Help() }

// An Inner is in a method of that.
type Inner struct{}

// Outer is another name.
type Outer = Point
`
	files["a/b_test.go"] = `package a_test

import (
	"testing"

	"example.org/a"
)

type thing struct{ Kind string }

func (thing) Snapshot() int { return 0 }

type helper struct{}

var _ a.Helper = helper{}

func (helper) Help() { _ = a.Inner{} }

func ExampleMake() {
	Client := thing{Kind: "x"}
	_ = Client.Kind
	_ = Client.Snapshot()
	shown, _ := a.Make()
	_ = shown
	helper{}.Help()
	var _ a.Outer
}

func TestLost(t *testing.T) { _ = a.Lost{} }

func alone() { _ = a.Alone{} }
`
	repository(t, files)
	call(t, "-write")
	status, _, errs := call(t)
	assert.Equal(t, 1, status)
	for _, name := range []string{"Client", "Snapshot", "Kind", "Lost", "Alone"} {
		assert.Contains(t, errs, "type "+name+" is in no example")
	}
	for _, name := range []string{"Shown", "Helper", "Inner", "Outer", "Point", "Mover"} {
		assert.NotContains(t, errs, "type "+name+" is in no example")
	}
}

func TestSince(t *testing.T) {
	before := repository(t, good())
	files := good()
	files["a/b.go"] = "package a\n\n// Do is new.\nfunc Do() {}\n"
	repository(t, files)
	status, out, errs := call(t, "-since", before)
	assert.Zero(t, status, errs)
	assert.Contains(t, out, "Do: added")

	files["a/a.go"] = "// Package a is another.\npackage a\n\n// Limit is the most.\nconst Limit = 8\n"
	repository(t, files)
	status, _, errs = call(t, "-since", before)
	assert.Equal(t, 1, status)
	assert.Contains(t, errs, "Point: removed")
	assert.Contains(t, errs, "Limit: value changed")
}
