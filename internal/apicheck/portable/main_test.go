package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// module writes the files of a module and goes to its folder.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	root := t.TempDir()
	files["go.mod"] = "module example.org/a\n\ngo 1.26.0\n"
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o666))
	}
	t.Chdir(root)
	t.Setenv("GOWORK", "off")
}

func TestFaultsOfOtherSystems(t *testing.T) {
	const program = "package main\n\nfunc main() { b() }\n"
	for name, c := range map[string]struct {
		files map[string]string
		args  []string
		fault string // none if it is empty
	}{
		"compiles": {
			files: map[string]string{"a.go": program, "b.go": "package main\n\nfunc b() {}\n"},
			args:  []string{"windows/386,darwin/amd64", "."},
		},
		"a file for one system": {
			files: map[string]string{"a.go": program, "b_linux.go": "package main\n\nfunc b() {}\n"},
			args:  []string{"linux/amd64,freebsd/amd64", "."},
			fault: "does not compile for freebsd/amd64",
		},
		"in a package that is imported": {
			files: map[string]string{
				"a.go":             "package main\n\nimport \"example.org/a/i\"\n\nfunc main() { i.B() }\n",
				"i/b.go":           "package i\n\nfunc B() {}\n",
				"i/b_windows.go":   "package i\n\nvar _ = missing\n",
				"i/b_linux.go":     "package i\n\nvar _ = B\n",
				"unused/unused.go": "package unused\n\nvar _ = missing\n",
			},
			args:  []string{"linux/amd64,windows/amd64", "."},
			fault: "undefined: missing",
		},
		"too large for 32 bits": {
			files: map[string]string{"a.go": program, "b.go": "package main\n\nfunc b() { _ = int(1 << 40) }\n"},
			args:  []string{"linux/amd64,linux/386", "."},
			fault: "does not compile for linux/386",
		},
		"tests of which nobody asked": {
			files: map[string]string{"a.go": "package a\n", "a_test.go": "package a\n\nvar _ = missing\n"},
			args:  []string{"darwin/amd64", "."},
		},
		"tests": {
			files: map[string]string{"a.go": "package a\n", "a_test.go": "package a\n\nvar _ = missing\n"},
			args:  []string{"-test", "darwin/amd64", "."},
			fault: "undefined: missing",
		},
		"no such package": {
			files: map[string]string{"a.go": "package a\n"},
			args:  []string{"darwin/amd64", "./b"},
			fault: "does not compile for darwin/amd64",
		},
		"no such system": {
			files: map[string]string{"a.go": "package a\n"},
			args:  []string{"solitaire/amd64", "."},
			fault: "does not compile for solitaire/amd64",
		},
		"half a system": {
			files: map[string]string{"a.go": "package a\n"},
			args:  []string{"darwin", "."},
			fault: "windows/386",
		},
	} {
		t.Run(name, func(t *testing.T) {
			module(t, c.files)
			var errs bytes.Buffer
			status := run(c.args, &errs)
			if c.fault == "" {
				assert.Zero(t, status)
				assert.Empty(t, errs.String())
				return
			}
			assert.Equal(t, 1, status)
			assert.Contains(t, errs.String(), c.fault)
			assert.NotContains(t, errs.String(), "does not compile for linux/amd64")
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"darwin/amd64"}, {"-unknown", "darwin/amd64", "."}} {
		assert.Equal(t, 2, run(args, new(bytes.Buffer)), args)
	}
}
