package docs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/golocker/golocker/internal/servertest"
)

// What the first page says, done by somebody who has just cloned the repository: its
// commands run, and its first example, in a module of its own, takes a lock on a real
// server.
func TestReadmeFromAFreshClone(t *testing.T) {
	if _, err := os.Stat(filepath.Join(root, ".git")); err != nil || testing.Short() {
		t.Skip("this is not a git checkout, or the tests are to be short")
	}
	t.Parallel()
	server := servertest.Single(t)
	clone := filepath.Join(t.TempDir(), "golocker")
	run(t, ".", "git", "clone", "-q", "--depth=1", "file://"+absolute(t, root), clone)
	readme, err := os.ReadFile(filepath.Join(clone, "README.md"))
	require.NoError(t, err)

	t.Run("quickstart", func(t *testing.T) {
		t.Parallel()
		command := strings.Fields(commandOf(t, string(readme), "go run "))
		run(t, clone, append(command, "-driver", "goredis", "-url", "redis://"+server.Addr)...)
	})
	t.Run("example", func(t *testing.T) {
		t.Parallel()
		module := t.TempDir()
		run(t, module, "go", "mod", "init", "example.com/hello")
		// The modules that are to be got are those of the clone, published or not.
		got := strings.Fields(strings.TrimPrefix(commandOf(t, string(readme), "go get "), "go get "))
		for _, path := range got {
			folder := strings.TrimPrefix(path, "github.com/golocker/golocker/")
			assert.FileExists(t, filepath.Join(clone, folder, "go.mod"))
			run(t, module, "go", "mod", "edit", "-require="+path+"@v0.0.0", "-replace="+path+"="+filepath.Join(clone, folder))
		}
		sums, err := os.ReadFile(filepath.Join(clone, "drivers/goredis/go.sum"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(module, "go.sum"), sums, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(module, "main.go"), []byte(program(t, readme)), 0o600))
		assert.Equal(t, "under the lock\n", run(t, module, "go", "run", "-mod=mod", ".", server.Addr))
	})
}

// program makes a program of the page's first Go block.
func program(t *testing.T, readme []byte) string {
	t.Helper()
	page := parseText(t, "README.md", readme)
	imports, code, ok := strings.Cut(page.goCode[0], "\n)\n")
	require.True(t, ok)
	return "package main\n\n" + imports + "\n)\n" + `
import (
	"fmt"
	"os"
)

func run(ctx context.Context, addr string, work func(ctx context.Context) error) error {
` + code + `}

func main() {
	err := run(context.Background(), os.Args[1], func(context.Context) error {
		fmt.Println("under the lock")
		return nil
	})
	if err != nil {
		panic(err)
	}
}
`
}

// commandOf returns the first command of a page that begins so.
func commandOf(t *testing.T, page, begins string) string {
	t.Helper()
	for line := range strings.Lines(page) {
		if command, ok := strings.CutPrefix(line, "    "); ok && strings.HasPrefix(command, begins) {
			return strings.TrimSpace(command)
		}
	}
	require.FailNow(t, "no such command", begins)
	return ""
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	require.NoError(t, err)
	return abs
}

// run runs a command as a user would, without this repository's workspace.
func run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=", "GOFLAGS=-buildvcs=false")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %s", strings.Join(command, " "), out)
	return string(out)
}
